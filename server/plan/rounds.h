// Round-robin rounds by the circle method: who meets whom. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace weft {

// Rounds after which everyone has met everyone exactly once: n - 1 for even n, n for odd n; 0 below two.
size_t CycleLength(size_t n);

// Pairs of indices below `n` that meet in `round` (any value; rounds repeat with CycleLength). Pairs are
// disjoint; with odd n one index sits out. `first` is rank 0; each pair swaps its ranks from one cycle to the
// next. Empty below two.
std::vector<std::pair<size_t, size_t>> RoundPairs(size_t n, uint64_t round);

}  // namespace weft
