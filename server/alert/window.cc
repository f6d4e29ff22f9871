#include "server/alert/window.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/civil_time.h"
#include "base/text.h"

namespace weft {
namespace {

// --- Validation ---

constexpr size_t kMaxMatchers = 32;
constexpr size_t kMaxValues = 1000;
constexpr size_t kMaxValueCharacters = 256;
constexpr size_t kMaxLabelCharacters = 64;
constexpr size_t kMaxReasonCharacters = 4096;
constexpr size_t kMaxCreatorCharacters = 128;

using Problems = std::vector<std::string>;

size_t CodePoints(absl::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & '\xc0') != '\x80'; }));
}

// Line feed and tab are fine in prose.
bool HasControl(absl::string_view text, bool prose) {
  std::string rest(text);
  if (prose)
    rest.erase(std::remove_if(rest.begin(), rest.end(), [](char c) { return c == '\n' || c == '\t'; }),
               rest.end());
  return EscapeControl(rest) != rest;
}

void CheckText(absl::string_view what, absl::string_view text, size_t limit, bool prose, Problems& problems) {
  if (!IsValidUtf8(text)) {
    problems.push_back(absl::StrCat(what, " is not valid UTF-8"));
  } else if (text.empty() || CodePoints(text) > limit) {
    problems.push_back(absl::StrCat(what, " must have 1 to ", limit, " characters"));
  } else if (HasControl(text, prose)) {
    problems.push_back(absl::StrCat(what, " holds control characters"));
  }
}

void CheckMatcher(const Matcher& matcher, size_t index, Problems& problems) {
  const std::string what = absl::StrCat("matcher ", index + 1);
  CheckText(absl::StrCat(what, ": label"), matcher.label, kMaxLabelCharacters, false, problems);
  if (matcher.values.empty() || matcher.values.size() > kMaxValues) {
    problems.push_back(absl::StrCat(what, ": must have 1 to ", kMaxValues, " values"));
    return;
  }
  Problems bad;
  for (const std::string& value : matcher.values)
    CheckText(absl::StrCat(what, ": a value"), value, kMaxValueCharacters, false, bad);
  if (!bad.empty()) problems.push_back(bad.front());
}

bool IsPositive(const Matcher& matcher) {
  return matcher.op == MatchOperator::kIn || matcher.op == MatchOperator::kGlob;
}

void CheckMatchers(const std::vector<Matcher>& matchers, Problems& problems) {
  if (matchers.empty() || matchers.size() > kMaxMatchers) {
    problems.push_back(absl::StrCat("must have 1 to ", kMaxMatchers, " matchers"));
  }
  for (size_t i = 0; i < std::min(matchers.size(), kMaxMatchers); ++i) CheckMatcher(matchers[i], i, problems);
  if (!matchers.empty() && std::none_of(matchers.begin(), matchers.end(), IsPositive)) {
    problems.push_back("at least one matcher must say what is covered (IN or GLOB), not only what is not");
  }
}

std::string Shown(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

void CheckSchedule(const OneOff& once, absl::Time now, Problems& problems) {
  if (once.end <= once.start) {
    problems.push_back(absl::StrCat("end ", Shown(once.end), " is not after start ", Shown(once.start)));
  } else if (once.end - once.start > kMaxOneOff) {
    problems.push_back("a one-off window lasts at most 30 days");
  }
  if (once.end <= now) problems.push_back(absl::StrCat("end ", Shown(once.end), " has passed"));
  if (once.start > now + kMaxWindowHorizon)
    problems.push_back(absl::StrCat("start ", Shown(once.start), " is more than a year ahead"));
}

void CheckZone(const std::string& name, Problems& problems) {
  absl::TimeZone zone;
  // A name that does not load yields UTC and false: the window would be hours off.
  if (name.empty() || !absl::LoadTimeZone(name, &zone)) {
    problems.push_back(
        absl::StrCat("time zone \"", EscapeControl(ToValidUtf8(name)),
                     "\" is unknown; use an IANA name such as Europe/Berlin, and see that tzdata "
                     "is installed on the server"));
  }
}

void CheckSchedule(const Weekly& weekly, absl::Time now, Problems& problems) {
  if (weekly.weekdays.empty()) problems.push_back("must have at least one weekday");
  if (weekly.start_minute >= 24 * 60) problems.push_back("start minute must be 0 to 1439");
  if (weekly.duration < kMinOccurrence || weekly.duration > kMaxOccurrence)
    problems.push_back("an occurrence must last 1 minute to 7 days");
  if (weekly.until <= now || weekly.until > now + kMaxWindowHorizon)
    problems.push_back("until must be in the future, at most a year ahead");
  CheckZone(weekly.time_zone, problems);
}

// --- Occurrences ---

std::optional<Occurrence> Cut(const MaintenanceWindow& window, absl::Time start, absl::Time end) {
  end = std::min(end, window.ended_time);
  if (start >= end) return std::nullopt;
  return Occurrence{start, end};
}

// The instant at which the civil clock first reads `civil` or, where it jumps over that, later than it.
absl::Time FirstInstant(const absl::TimeZone& zone, absl::CivilSecond civil) {
  const absl::TimeZone::TimeInfo info = zone.At(civil);
  return info.kind == absl::TimeZone::TimeInfo::SKIPPED ? info.trans : info.pre;
}

// Uncut starts of occurrences on the civil days [first, last], in order.
std::vector<absl::Time> Starts(const Weekly& weekly, const absl::TimeZone& zone, absl::CivilDay first,
                               absl::CivilDay last) {
  std::vector<absl::Time> starts;
  for (absl::CivilDay day = first; day <= last; ++day) {
    if (std::find(weekly.weekdays.begin(), weekly.weekdays.end(), absl::GetWeekday(day)) ==
        weekly.weekdays.end())
      continue;
    const absl::Time start =
        FirstInstant(zone, absl::CivilSecond(day) + 60 * static_cast<int>(weekly.start_minute));
    if (start < weekly.until) starts.push_back(start);
  }
  return starts;
}

bool IsNearNow(absl::Time time) {
  // Civil days of infinite times are not days to count from.
  return time > absl::FromUnixSeconds(-62135596800) && time < absl::FromUnixSeconds(253402300799);
}

std::optional<Occurrence> At(const MaintenanceWindow& window, const OneOff& once, absl::Time now) {
  const std::optional<Occurrence> cut = Cut(window, once.start, once.end);
  if (!cut || now < cut->start || now >= cut->end) return std::nullopt;
  return cut;
}

std::optional<Occurrence> Next(const MaintenanceWindow& window, const OneOff& once, absl::Time after) {
  if (once.start <= after) return std::nullopt;
  return Cut(window, once.start, once.end);
}

std::optional<Occurrence> At(const MaintenanceWindow& window, const Weekly& weekly, absl::Time now) {
  absl::TimeZone zone;
  if (!IsNearNow(now) || !absl::LoadTimeZone(weekly.time_zone, &zone)) return std::nullopt;
  // One day to spare on both sides: a skipped start, even a whole skipped day, moves to the next civil day.
  const absl::CivilDay first(absl::ToCivilDay(now - weekly.duration, zone) - 2);
  std::optional<Occurrence> found;
  for (const absl::Time start : Starts(weekly, zone, first, absl::ToCivilDay(now, zone) + 1)) {
    const std::optional<Occurrence> cut = Cut(window, start, start + weekly.duration);
    if (cut && cut->start <= now && now < cut->end) found = cut;
  }
  return found;
}

std::optional<Occurrence> Next(const MaintenanceWindow& window, const Weekly& weekly, absl::Time after) {
  absl::TimeZone zone;
  if (!IsNearNow(after) || !absl::LoadTimeZone(weekly.time_zone, &zone)) return std::nullopt;
  const absl::CivilDay day = absl::ToCivilDay(after, zone);
  for (const absl::Time start : Starts(weekly, zone, day - 2, day + 9)) {
    if (start > after) return Cut(window, start, start + weekly.duration);
  }
  return std::nullopt;
}

bool HasBegun(const MaintenanceWindow& window, absl::Time now) {
  if (const auto* once = std::get_if<OneOff>(&window.schedule))
    return once->start <= now && once->start < window.ended_time;
  if (OccurrenceAt(window, window.create_time) || !IsNearNow(window.create_time)) return true;
  const std::optional<Occurrence> first = NextOccurrence(window, window.create_time);
  return first && first->start <= now;
}

// --- Matching ---

size_t CodePointBytes(absl::string_view text) {
  size_t n = 1;
  while (n < text.size() && (text[n] & '\xc0') == '\x80') ++n;
  return n;
}

bool AnyFits(const Matcher& matcher, absl::string_view value) {
  const bool glob = matcher.op == MatchOperator::kGlob || matcher.op == MatchOperator::kNotGlob;
  return std::any_of(matcher.values.begin(), matcher.values.end(),
                     [&](const std::string& v) { return glob ? GlobMatches(v, value) : v == value; });
}

std::vector<absl::string_view> ValuesOf(const LabelSet& labels, const std::string& name) {
  std::vector<absl::string_view> values;
  if (name == "node") {
    values = {labels.hostname, labels.node_id};
  } else if (name == "probe") {
    values = {labels.probe};
  } else if (const auto it = labels.site.find(name); it != labels.site.end()) {
    values = {it->second};
  }
  values.erase(std::remove_if(values.begin(), values.end(), [](absl::string_view v) { return v.empty(); }),
               values.end());
  return values;
}

bool Holds(const Matcher& matcher, const LabelSet& labels) {
  const std::vector<absl::string_view> values = ValuesOf(labels, matcher.label);
  const bool fits =
      std::any_of(values.begin(), values.end(), [&](absl::string_view v) { return AnyFits(matcher, v); });
  return fits == IsPositive(matcher);
}

bool OnlyOnProbe(const MaintenanceWindow& window) {
  return std::all_of(window.matchers.begin(), window.matchers.end(),
                     [](const Matcher& matcher) { return matcher.label == "probe"; });
}

LabelSet LabelsOfId(const std::string& node_id, const std::string& probe, const NodeLookup& nodes) {
  const Node* node = nodes ? nodes(node_id) : nullptr;
  if (node != nullptr) return LabelsOf(*node, probe);
  return LabelSet{.node_id = node_id, .hostname = "", .probe = probe, .site = {}};
}

std::vector<std::string> FleetMutedBy(const Finding& finding, const std::vector<MaintenanceWindow>& open) {
  std::vector<std::string> ids;
  for (const MaintenanceWindow& window : open) {
    if (OnlyOnProbe(window) &&
        Matches(window, LabelSet{.node_id = "", .hostname = "", .probe = finding.probe, .site = {}}))
      ids.push_back(window.id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

bool OneCoveredNodeMutes(FindingScope scope) {
  return scope == FindingScope::kNode || scope == FindingScope::kNic || scope == FindingScope::kPair;
}

}  // namespace

absl::Status ValidateWindow(const MaintenanceWindow& window, absl::Time now) {
  Problems problems;
  CheckMatchers(window.matchers, problems);
  std::visit([&](const auto& schedule) { CheckSchedule(schedule, now, problems); }, window.schedule);
  CheckText("reason", window.reason, kMaxReasonCharacters, true, problems);
  CheckText("created_by", window.created_by, kMaxCreatorCharacters, false, problems);
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("maintenance window: ", absl::StrJoin(problems, "; ")));
}

std::optional<Occurrence> OccurrenceAt(const MaintenanceWindow& window, absl::Time now) {
  return std::visit([&](const auto& schedule) { return At(window, schedule, now); }, window.schedule);
}

std::optional<Occurrence> NextOccurrence(const MaintenanceWindow& window, absl::Time after) {
  return std::visit([&](const auto& schedule) { return Next(window, schedule, after); }, window.schedule);
}

WindowState StateOf(const MaintenanceWindow& window, absl::Time now) {
  if (OccurrenceAt(window, now)) return WindowState::kActive;
  const bool begun = HasBegun(window, now);
  if (window.ended_time <= now) return begun ? WindowState::kEnded : WindowState::kCancelled;
  if (!NextOccurrence(window, now)) return WindowState::kEnded;
  return begun ? WindowState::kWaiting : WindowState::kScheduled;
}

LabelSet LabelsOf(const Node& node, absl::string_view probe) {
  return LabelSet{
      .node_id = node.id, .hostname = node.hostname, .probe = std::string(probe), .site = node.labels};
}

bool Matches(const MaintenanceWindow& window, const LabelSet& labels) {
  return std::all_of(window.matchers.begin(), window.matchers.end(),
                     [&](const Matcher& matcher) { return Holds(matcher, labels); });
}

bool GlobMatches(absl::string_view glob, absl::string_view text) {
  // On a mismatch only the latest star needs to take one more byte: earlier ones never have to be
  // reconsidered.
  size_t g = 0, t = 0, star = absl::string_view::npos, star_text = 0;
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      star_text = t;
    } else if (g < glob.size() && glob[g] == '?') {
      ++g;
      t += CodePointBytes(text.substr(t));
    } else if (g < glob.size() && glob[g] == text[t]) {
      ++g;
      ++t;
    } else if (star != absl::string_view::npos) {
      g = star + 1;
      star_text += CodePointBytes(text.substr(star_text));
      t = star_text;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

std::vector<MaintenanceWindow> OpenWindows(const std::vector<MaintenanceWindow>& windows, absl::Time now) {
  std::vector<MaintenanceWindow> open;
  std::copy_if(windows.begin(), windows.end(), std::back_inserter(open),
               [&](const MaintenanceWindow& window) { return OccurrenceAt(window, now).has_value(); });
  return open;
}

std::vector<std::string> CoveredBy(const LabelSet& labels, const std::vector<MaintenanceWindow>& windows,
                                   absl::Time now) {
  std::vector<std::string> ids;
  for (const MaintenanceWindow& window : windows) {
    if (Matches(window, labels) && OccurrenceAt(window, now)) ids.push_back(window.id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::vector<std::string> MutedBy(const Finding& finding, const NodeLookup& nodes,
                                 const std::vector<MaintenanceWindow>& windows, absl::Time now) {
  if (finding.node_ids.empty()) return FleetMutedBy(finding, OpenWindows(windows, now));
  std::set<std::string> ids;
  size_t covered = 0;
  for (const std::string& node_id : finding.node_ids) {
    const std::vector<std::string> by = CoveredBy(LabelsOfId(node_id, finding.probe, nodes), windows, now);
    covered += by.empty() ? 0 : 1;
    ids.insert(by.begin(), by.end());
  }
  const size_t needed = OneCoveredNodeMutes(finding.scope) ? 1 : finding.node_ids.size();
  if (covered < needed) return {};
  return {ids.begin(), ids.end()};
}

}  // namespace weft
