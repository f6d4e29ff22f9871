#include "base/near_match.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace weft {
namespace {

constexpr size_t kLongestWord = 64;
using Row = std::array<size_t, kLongestWord + 1>;

// How far `candidate` is from `word`; above `limit` for no match.
size_t Distance(absl::string_view word, absl::string_view candidate, size_t limit) {
  const size_t edits = EditDistance(absl::AsciiStrToLower(word), absl::AsciiStrToLower(candidate), limit);
  if (edits <= limit) return edits;
  const bool part =
      word.size() >= 3 && absl::StrContains(absl::AsciiStrToLower(candidate), absl::AsciiStrToLower(word));
  return part ? limit : limit + 1;
}

}  // namespace

size_t EditDistance(absl::string_view a, absl::string_view b, size_t limit) {
  if (a.size() > kLongestWord || b.size() > kLongestWord) return limit + 1;
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > limit) return limit + 1;
  Row before_last{}, last{}, now{};
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) now[j] = std::min(now[j], before_last[j - 2] + 1);
    }
    before_last = last;
    last = now;
  }
  return std::min(last[b.size()], limit + 1);
}

std::vector<std::string> NearMatches(absl::string_view word, const std::vector<std::string>& candidates,
                                     size_t max) {
  const size_t limit = word.size() < 4 ? 1 : 2;
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& candidate : candidates) {
    const size_t distance = Distance(word, candidate, limit);
    if (distance <= limit) near.emplace_back(distance, candidate);
  }
  const size_t count = std::min(max, near.size());
  std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count), near.end());
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(near[i].second);
  return names;
}

std::string DidYouMean(const std::vector<std::string>& matches) {
  return matches.empty() ? "" : absl::StrCat(" Did you mean ", absl::StrJoin(matches, ", "), "?");
}

}  // namespace weft
