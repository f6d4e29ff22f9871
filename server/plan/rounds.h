// Who meets whom in a round: pairs by the circle method, larger groups by a shuffle. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace weft {

// The place of a node in the order that its cohort's rounds go by: names that follow the cabling, as most do,
// are scattered, so that a node's partners in successive rounds lie on different leaves and the fault of one
// leaf is not met many times in a row. A fixed function; it says nothing on ties, which are broken by the id.
uint64_t ScatterKey(absl::string_view cohort, absl::string_view id);

// Rounds after which everyone has met everyone exactly once: n - 1 for even n, n for odd n; 0 below two.
size_t CycleLength(size_t n);

// Pairs of indices below `n` that meet in `round` (any value; rounds repeat with CycleLength). Pairs are
// disjoint; with odd n one index sits out. `first` is rank 0; each pair swaps its ranks from one cycle to the
// next. Empty below two.
std::vector<std::pair<size_t, size_t>> RoundPairs(size_t n, uint64_t round);

// Disjoint groups of `size` of the indices below `n` that run together in `round`; each group's first member
// is rank 0. Size 1: each by itself. Size 2: RoundPairs. Larger: a shuffle that depends on `n` and `round`
// alone is cut into groups; a rest of one joins the last group, a larger rest is a group of its own, and with
// n <= size all are one group. Size 0 counts as 1. Empty where a group of two or more is asked for and n is
// below two.
std::vector<std::vector<size_t>> RoundGroups(size_t n, size_t size, uint64_t round);

}  // namespace weft
