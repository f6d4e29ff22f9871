// "Did you mean": words that a person may have meant. Any thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace weft {

// Least number of single-character insertions, deletions, replacements and swaps of neighbours that turn `a`
// into `b`; `limit` + 1 when it is more than `limit`. Words longer than 64 bytes count as too far.
size_t EditDistance(absl::string_view a, absl::string_view b, size_t limit);

// At most `max` of `candidates` that are near `word` (two edits, one for words under four letters, or
// `word` is a part of at least three letters), nearest first, then in order of the alphabet.
std::vector<std::string> NearMatches(absl::string_view word, const std::vector<std::string>& candidates,
                                     size_t max = 3);

// " Did you mean a, b?" with a space in front, or "" for no matches.
std::string DidYouMean(const std::vector<std::string>& matches);

}  // namespace weft
