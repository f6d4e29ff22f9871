#include "cli/hostlist.h"

#include <cstdint>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/text.h"

namespace weft::cli {
namespace {

constexpr size_t kMaxDigits = 9;
using Names = std::vector<std::string>;

absl::Status Bad(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("hostlist \"", EscapeControl(text), "\": ", why, ". Example: gpu[001-004,7],login1"));
}

absl::Status TooMany(size_t max_hosts) {
  return absl::InvalidArgumentError(
      absl::StrCat("hostlist names more than ", max_hosts, " nodes; use a glob such as \"gpu*\" or a label"));
}

bool IsNumber(absl::string_view text) {
  if (text.empty() || text.size() > kMaxDigits) return false;
  for (const char c : text) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return false;
  }
  return true;
}

// Splits at commas outside brackets; kInvalidArgument when brackets are nested or not balanced.
absl::StatusOr<Names> SplitEntries(absl::string_view text) {
  Names entries(1);
  bool inside = false;
  for (const char c : text) {
    if (c == '[' && inside) return Bad(text, "brackets inside brackets");
    if (c == ']' && !inside) return Bad(text, "] without [");
    if (c == '[' || c == ']') inside = c == '[';
    if (c == ',' && !inside) {
      entries.emplace_back();
    } else {
      entries.back().push_back(c);
    }
  }
  if (inside) return Bad(text, "[ without ]");
  return entries;
}

// "001-004" or "7" appended to `out`.
absl::Status AppendRange(absl::string_view range, size_t max_hosts, Names* out) {
  const std::pair<absl::string_view, absl::string_view> ends = absl::StrSplit(range, absl::MaxSplits('-', 1));
  const bool single = range.find('-') == absl::string_view::npos;
  const absl::string_view last_text = single ? ends.first : ends.second;
  uint32_t first = 0, last = 0;
  if (!IsNumber(ends.first) || !absl::SimpleAtoi(ends.first, &first)) return Bad(range, "not a number");
  if (!IsNumber(last_text) || !absl::SimpleAtoi(last_text, &last)) return Bad(range, "not a number");
  if (last < first) return Bad(range, "the range runs backwards");
  if (last - first >= max_hosts) return TooMany(max_hosts);
  const int width = static_cast<int>(ends.first.size());
  for (uint32_t i = first; i <= last; ++i) out->push_back(absl::StrFormat("%0*d", width, i));
  return absl::OkStatus();
}

// What stands between one pair of brackets.
absl::StatusOr<Names> ExpandRanges(absl::string_view ranges, size_t max_hosts) {
  Names out;
  for (const absl::string_view range : absl::StrSplit(ranges, ',')) {
    if (absl::Status status = AppendRange(range, max_hosts, &out); !status.ok()) return status;
    if (out.size() > max_hosts) return TooMany(max_hosts);
  }
  return out;
}

absl::StatusOr<Names> Multiply(const Names& prefixes, const Names& suffixes, size_t max_hosts) {
  if (prefixes.size() * suffixes.size() > max_hosts) return TooMany(max_hosts);
  Names out;
  for (const std::string& prefix : prefixes) {
    for (const std::string& suffix : suffixes) out.push_back(prefix + suffix);
  }
  return out;
}

// One entry whose brackets are balanced.
absl::StatusOr<Names> ExpandEntry(absl::string_view entry, size_t max_hosts) {
  Names names(1);
  while (!entry.empty()) {
    const size_t open = entry.find('[');
    for (std::string& name : names) absl::StrAppend(&name, entry.substr(0, open));
    if (open == absl::string_view::npos) break;
    const size_t close = entry.find(']', open);
    const auto ranges = ExpandRanges(entry.substr(open + 1, close - open - 1), max_hosts);
    if (!ranges.ok()) return ranges.status();
    auto product = Multiply(names, *ranges, max_hosts);
    if (!product.ok()) return product.status();
    names = *std::move(product);
    entry.remove_prefix(close + 1);
  }
  return names;
}

}  // namespace

absl::StatusOr<Names> ExpandHostlist(absl::string_view text, size_t max_hosts) {
  const auto entries = SplitEntries(text);
  if (!entries.ok()) return entries.status();
  Names out;
  std::set<std::string> seen;
  for (const std::string& raw : *entries) {
    const absl::string_view entry = absl::StripAsciiWhitespace(raw);
    if (entry.empty()) return Bad(text, "an entry is empty");
    const auto names = ExpandEntry(entry, max_hosts);
    if (!names.ok()) return names.status();
    for (const std::string& name : *names) {
      if (seen.insert(name).second) out.push_back(name);
    }
    if (out.size() > max_hosts) return TooMany(max_hosts);
  }
  return out;
}

bool IsGlob(absl::string_view name) { return name.find_first_of("*?") != absl::string_view::npos; }

}  // namespace weft::cli
