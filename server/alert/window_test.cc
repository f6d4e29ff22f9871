#include "server/alert/window.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace weft {
namespace {

constexpr absl::Weekday kAllDays[] = {
    absl::Weekday::monday, absl::Weekday::tuesday,  absl::Weekday::wednesday, absl::Weekday::thursday,
    absl::Weekday::friday, absl::Weekday::saturday, absl::Weekday::sunday};

absl::Time T(absl::string_view text) {
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, text, &time, &error)) ADD_FAILURE() << text << ": " << error;
  return time;
}

std::string Shown(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

MaintenanceWindow Window(std::variant<OneOff, Weekly> schedule) {
  MaintenanceWindow window;
  window.id = "mw-1";
  window.matchers = {{"node", MatchOperator::kIn, {"node-1"}}};
  window.schedule = std::move(schedule);
  window.reason = "replace the switch";
  window.created_by = "ann";
  return window;
}

MaintenanceWindow WeeklyWindow(std::vector<absl::Weekday> days, uint32_t start_minute,
                               absl::Duration duration, std::string zone) {
  return Window(Weekly{std::move(days), start_minute, duration, std::move(zone), absl::InfiniteFuture()});
}

MaintenanceWindow Daily(uint32_t start_minute, absl::Duration duration, std::string zone) {
  return WeeklyWindow({std::begin(kAllDays), std::end(kAllDays)}, start_minute, duration, std::move(zone));
}

MaintenanceWindow Once(absl::string_view start, absl::string_view end) {
  return Window(OneOff{T(start), T(end)});
}

bool IsOpen(const MaintenanceWindow& window, absl::string_view at) {
  return OccurrenceAt(window, T(at)).has_value();
}

// Runs with a process time zone, and puts the old one back.
class ProcessZone {
 public:
  explicit ProcessZone(const char* zone) {
    if (const char* before = getenv("TZ")) before_ = before;
    setenv("TZ", zone, 1);
    tzset();
  }
  ~ProcessZone() {
    before_.empty() ? unsetenv("TZ") : setenv("TZ", before_.c_str(), 1);
    tzset();
  }

 private:
  std::string before_;
};

// --- When ---

TEST(WindowTime, AOneOffIncludesItsStartAndExcludesItsEnd) {
  const MaintenanceWindow window = Once("2026-05-01T10:00:00Z", "2026-05-01T11:00:00Z");
  EXPECT_FALSE(IsOpen(window, "2026-05-01T09:59:59.999Z"));
  EXPECT_TRUE(IsOpen(window, "2026-05-01T10:00:00Z"));
  EXPECT_TRUE(IsOpen(window, "2026-05-01T10:59:59.999Z"));
  EXPECT_FALSE(IsOpen(window, "2026-05-01T11:00:00Z"));
}

TEST(WindowTime, TheZoneIsTheWindowsAndNotTheProcesss) {
  for (const char* zone : {"Asia/Seoul", "UTC", "America/New_York"}) {
    const ProcessZone process(zone);
    const MaintenanceWindow window = Daily(13 * 60, absl::Hours(11), "UTC");
    EXPECT_FALSE(IsOpen(window, "2026-01-14T12:59:59Z")) << zone;
    EXPECT_TRUE(IsOpen(window, "2026-01-14T13:00:00Z")) << zone;
    EXPECT_TRUE(IsOpen(window, "2026-01-14T23:59:59Z")) << zone;
    EXPECT_FALSE(IsOpen(window, "2026-01-15T00:00:00Z")) << zone;
  }
}

TEST(WindowTime, ADailyWindowFollowsSummerTimeFromTheFirstDay) {
  const MaintenanceWindow window = Daily(4 * 60, absl::Hours(1), "Europe/Berlin");
  EXPECT_TRUE(IsOpen(window, "2026-03-28T03:30:00Z"));
  EXPECT_TRUE(IsOpen(window, "2026-03-29T02:30:00Z"));
  EXPECT_FALSE(IsOpen(window, "2026-03-29T03:30:00Z"));
  EXPECT_TRUE(IsOpen(window, "2026-03-30T02:30:00Z"));
  std::vector<std::string> starts;
  for (absl::Time at = T("2026-03-28T00:00:00Z"); starts.size() < 3;) {
    at = NextOccurrence(window, at)->start;
    starts.push_back(Shown(at));
  }
  EXPECT_EQ(starts, (std::vector<std::string>{"2026-03-28T03:00:00Z", "2026-03-29T02:00:00Z",
                                              "2026-03-30T02:00:00Z"}));
}

TEST(WindowTime, AWindowAcrossMidnightBelongsToTheDayItStartsOn) {
  const MaintenanceWindow window = WeeklyWindow({absl::Weekday::monday}, 22 * 60, absl::Hours(9), "UTC");
  EXPECT_TRUE(
      ValidateWindow(
          Window(Weekly{{absl::Weekday::monday}, 22 * 60, absl::Hours(9), "UTC", T("2026-06-01T00:00:00Z")}),
          T("2026-05-01T00:00:00Z"))
          .ok());
  EXPECT_TRUE(IsOpen(window, "2026-05-04T23:59:30Z"));  // a Monday
  EXPECT_TRUE(IsOpen(window, "2026-05-05T00:00:00Z"));
  EXPECT_TRUE(IsOpen(window, "2026-05-05T06:59:59Z"));
  EXPECT_FALSE(IsOpen(window, "2026-05-05T07:00:00Z"));
  EXPECT_FALSE(IsOpen(window, "2026-05-04T06:00:00Z"));
}

TEST(WindowTime, ASkippedStartMovesToTheFirstInstantAfterTheGap) {
  const MaintenanceWindow window = Daily(2 * 60 + 30, absl::Hours(1), "America/New_York");
  const std::optional<Occurrence> found = NextOccurrence(window, T("2026-03-08T00:00:00-05:00"));
  EXPECT_EQ(Shown(found->start), "2026-03-08T07:00:00Z");
  EXPECT_EQ(Shown(found->end), "2026-03-08T08:00:00Z");
}

TEST(WindowTime, ARepeatedStartIsTakenTheFirstTimeAndOnce) {
  const MaintenanceWindow window = Daily(1 * 60 + 30, absl::Minutes(10), "America/New_York");
  const std::optional<Occurrence> found = NextOccurrence(window, T("2026-11-01T00:00:00-04:00"));
  EXPECT_EQ(Shown(found->start), "2026-11-01T05:30:00Z");
  EXPECT_FALSE(IsOpen(window, "2026-11-01T06:35:00Z"));
  EXPECT_EQ(Shown(NextOccurrence(window, found->start)->start), "2026-11-02T06:30:00Z");
}

TEST(WindowTime, TheDurationIsElapsedTimeOnDaysWithAClockChange) {
  const MaintenanceWindow window = Daily(60, absl::Hours(2), "Europe/Berlin");
  for (const char* day : {"2026-03-29T00:00:00+01:00", "2026-10-25T00:00:00+02:00"}) {
    const std::optional<Occurrence> found = NextOccurrence(window, T(day));
    EXPECT_EQ(found->end - found->start, absl::Hours(2));
  }
}

TEST(WindowTime, ASkippedDayHasItsOccurrenceAtTheNextMidnight) {
  // Samoa had no 30 December 2011.
  const MaintenanceWindow window = WeeklyWindow({absl::Weekday::friday}, 600, absl::Hours(1), "Pacific/Apia");
  EXPECT_EQ(Shown(NextOccurrence(window, T("2011-12-28T00:00:00Z"))->start), "2011-12-30T10:00:00Z");
}

TEST(WindowTime, OccurrencesThatOverlapAreAUnion) {
  const MaintenanceWindow window = Daily(600, absl::Hours(30), "UTC");
  for (int hour = 0; hour < 72; ++hour)
    EXPECT_TRUE(OccurrenceAt(window, T("2026-05-04T00:00:00Z") + absl::Hours(hour)).has_value());
  EXPECT_EQ(Shown(OccurrenceAt(window, T("2026-05-04T11:00:00Z"))->end), "2026-05-05T16:00:00Z");
}

TEST(WindowTime, NoOccurrenceStartsAtOrAfterUntil) {
  MaintenanceWindow window = Daily(600, absl::Hours(2), "UTC");
  std::get<Weekly>(window.schedule).until = T("2026-05-05T10:00:00Z");
  EXPECT_TRUE(IsOpen(window, "2026-05-04T11:00:00Z"));
  EXPECT_FALSE(IsOpen(window, "2026-05-05T10:00:00Z"));
  EXPECT_FALSE(NextOccurrence(window, T("2026-05-04T10:00:00Z")).has_value());
}

TEST(WindowTime, EndingByHandCutsTheOccurrenceAndAllLaterOnes) {
  MaintenanceWindow window = Daily(600, absl::Hours(2), "UTC");
  window.ended_time = T("2026-05-04T11:00:00Z");
  EXPECT_EQ(Shown(OccurrenceAt(window, T("2026-05-04T10:30:00Z"))->end), "2026-05-04T11:00:00Z");
  EXPECT_FALSE(IsOpen(window, "2026-05-04T11:00:00Z"));
  EXPECT_FALSE(NextOccurrence(window, T("2026-05-04T10:30:00Z")).has_value());
}

TEST(WindowTime, ChangedHoursTakeEffectAtOnceWithoutAnOrphanedOccurrence) {
  MaintenanceWindow window = Daily(600, absl::Hours(2), "UTC");
  ASSERT_TRUE(IsOpen(window, "2026-05-04T10:30:00Z"));
  std::get<Weekly>(window.schedule).start_minute = 15 * 60;
  EXPECT_FALSE(IsOpen(window, "2026-05-04T10:30:00Z"));
  EXPECT_EQ(Shown(NextOccurrence(window, T("2026-05-04T10:30:00Z"))->start), "2026-05-04T15:00:00Z");
}

TEST(WindowTime, InfiniteInstantsHaveNoOccurrence) {
  const MaintenanceWindow window = Daily(600, absl::Hours(2), "UTC");
  for (const absl::Time at : {absl::InfinitePast(), absl::InfiniteFuture()}) {
    EXPECT_FALSE(OccurrenceAt(window, at).has_value());
    EXPECT_FALSE(NextOccurrence(window, at).has_value());
  }
}

TEST(WindowTime, StatesFollowTheClock) {
  MaintenanceWindow window = Daily(600, absl::Hours(2), "UTC");
  window.create_time = T("2026-05-04T00:00:00Z");
  std::get<Weekly>(window.schedule).until = T("2026-05-06T00:00:00Z");
  EXPECT_EQ(StateOf(window, T("2026-05-04T09:00:00Z")), WindowState::kScheduled);
  EXPECT_EQ(StateOf(window, T("2026-05-04T10:00:00Z")), WindowState::kActive);
  EXPECT_EQ(StateOf(window, T("2026-05-04T12:00:00Z")), WindowState::kWaiting);
  EXPECT_EQ(StateOf(window, T("2026-05-05T12:00:00Z")), WindowState::kEnded);
  window.ended_time = T("2026-05-04T09:00:00Z");
  EXPECT_EQ(StateOf(window, T("2026-05-04T09:00:00Z")), WindowState::kCancelled);
  EXPECT_EQ(StateOf(window, T("2026-05-07T09:00:00Z")), WindowState::kCancelled);
  window.ended_time = T("2026-05-04T10:30:00Z");
  EXPECT_EQ(StateOf(window, T("2026-05-04T10:30:00Z")), WindowState::kEnded);
}

TEST(WindowTime, AOneOffIsScheduledActiveAndEndedInTurnOrCancelled) {
  MaintenanceWindow window = Once("2026-05-01T10:00:00Z", "2026-05-01T11:00:00Z");
  EXPECT_EQ(StateOf(window, T("2026-05-01T09:00:00Z")), WindowState::kScheduled);
  EXPECT_EQ(StateOf(window, T("2026-05-01T10:00:00Z")), WindowState::kActive);
  EXPECT_EQ(StateOf(window, T("2026-05-01T11:00:00Z")), WindowState::kEnded);
  window.ended_time = T("2026-05-01T09:30:00Z");
  EXPECT_EQ(StateOf(window, T("2026-05-01T12:00:00Z")), WindowState::kCancelled);
}

// --- The oracle: walks the civil clock minute by minute and never asks for the instant of a civil time. ---

// The first instant at which the clock of `zone` reads `target` or later, found from two days before.
absl::Time FirstReading(const absl::TimeZone& zone, absl::CivilSecond target) {
  const absl::CivilSecond epoch(1970, 1, 1);
  absl::Time at = absl::UnixEpoch() + absl::Seconds(target - epoch) - absl::Hours(40);
  while (absl::ToCivilSecond(at, zone) < target) at += absl::Minutes(1);
  return at;
}

bool OracleIsOpen(const Weekly& weekly, absl::Time now) {
  absl::TimeZone zone;
  RC_ASSERT(absl::LoadTimeZone(weekly.time_zone, &zone));
  const absl::CivilDay today = absl::ToCivilDay(now, zone);
  for (absl::CivilDay day = today - 10; day <= today + 2; ++day) {
    for (const absl::Weekday weekday : weekly.weekdays) {
      if (absl::GetWeekday(day) != weekday) continue;
      const absl::Time start =
          FirstReading(zone, absl::CivilSecond(day) + 60 * static_cast<int>(weekly.start_minute));
      if (start < weekly.until && start <= now && now < start + weekly.duration) return true;
    }
  }
  return false;
}

constexpr const char* kZones[] = {"UTC",
                                  "Europe/Berlin",
                                  "America/New_York",
                                  "Australia/Lord_Howe",
                                  "Asia/Kolkata",
                                  "America/Sao_Paulo",
                                  "Pacific/Apia",
                                  "Africa/Casablanca",
                                  "Asia/Tehran",
                                  "America/St_Johns",
                                  "Pacific/Chatham",
                                  "Europe/Dublin",
                                  "Asia/Pyongyang",
                                  "America/Caracas",
                                  "Antarctica/Troll",
                                  "Asia/Amman",
                                  "Africa/Cairo",
                                  "Pacific/Kiritimati",
                                  "America/Godthab",
                                  "Asia/Kathmandu"};

absl::Time RandomInstant() {
  return absl::FromUnixSeconds(*rc::gen::inRange<int64_t>(946684800, 2240524800));  // 2000 to 2040
}

// An instant within a day of a clock change, where there is one: that is where faults live.
absl::Time InterestingInstant(const absl::TimeZone& zone) {
  const absl::Time at = RandomInstant();
  absl::TimeZone::CivilTransition transition;
  if (!zone.NextTransition(at, &transition)) return at;
  const absl::Time change = absl::FromCivil(transition.to, zone);
  if (change > absl::FromUnixSeconds(2240524800)) return at;
  return change + absl::Minutes(*rc::gen::inRange(-30 * 60, 30 * 60));
}

Weekly RandomWeekly() {
  Weekly weekly;
  weekly.time_zone = *rc::gen::elementOf(std::vector<std::string>(std::begin(kZones), std::end(kZones)));
  const auto days = *rc::gen::container<std::vector<size_t>>(*rc::gen::inRange<size_t>(1, 8),
                                                             rc::gen::inRange<size_t>(0, 7));
  for (const size_t day : days) weekly.weekdays.push_back(kAllDays[day]);
  // Half of them in the hours in which clocks change.
  weekly.start_minute = *rc::gen::oneOf(rc::gen::inRange(0u, 1440u), rc::gen::inRange(0u, 240u));
  weekly.duration =
      absl::Minutes(*rc::gen::oneOf(rc::gen::inRange(1, 7 * 1440 + 1), rc::gen::inRange(1, 300)));
  weekly.until = *rc::gen::arbitrary<bool>() ? RandomInstant() : absl::InfiniteFuture();
  return weekly;
}

// An instant at or beside an edge of an occurrence on a day near `about`, if the weekday fits.
absl::Time EdgeNear(const Weekly& weekly, const absl::TimeZone& zone, absl::Time about) {
  const absl::CivilDay day = absl::ToCivilDay(about, zone) + *rc::gen::inRange(-1, 2);
  const absl::Time start =
      FirstReading(zone, absl::CivilSecond(day) + 60 * static_cast<int>(weekly.start_minute));
  const absl::Time edge = *rc::gen::arbitrary<bool>() ? start : start + weekly.duration;
  return edge + absl::Seconds(*rc::gen::inRange(-1, 2));
}

TEST(WindowTime, AgreesWithAMinuteByMinuteOracle) {
  EXPECT_TRUE(rc::check("open now", [] {
    const Weekly weekly = RandomWeekly();
    absl::TimeZone zone;
    RC_ASSERT(absl::LoadTimeZone(weekly.time_zone, &zone));
    for (int i = 0; i < 6; ++i) {
      absl::Time now = InterestingInstant(zone);
      if (i % 3 != 0) now = EdgeNear(weekly, zone, now);
      RC_ASSERT(OccurrenceAt(Window(weekly), now).has_value() == OracleIsOpen(weekly, now));
    }
  }));
}

TEST(WindowTime, TheNextOccurrenceIsTheEarliestStartAndIsOpenThen) {
  EXPECT_TRUE(rc::check("next", [] {
    Weekly weekly = RandomWeekly();
    weekly.until = absl::InfiniteFuture();
    const MaintenanceWindow window = Window(weekly);
    absl::TimeZone zone;
    RC_ASSERT(absl::LoadTimeZone(weekly.time_zone, &zone));
    const absl::Time after = InterestingInstant(zone);
    absl::Time earliest = absl::InfiniteFuture();
    const absl::CivilDay today = absl::ToCivilDay(after, zone);
    for (absl::CivilDay day = today - 2; day <= today + 9; ++day) {
      if (std::find(weekly.weekdays.begin(), weekly.weekdays.end(), absl::GetWeekday(day)) ==
          weekly.weekdays.end())
        continue;
      const absl::Time start =
          FirstReading(zone, absl::CivilSecond(day) + 60 * static_cast<int>(weekly.start_minute));
      if (start > after) earliest = std::min(earliest, start);
    }
    const std::optional<Occurrence> next = NextOccurrence(window, after);
    RC_ASSERT(next.has_value());
    RC_ASSERT(next->start == earliest);
    RC_ASSERT(next->end == earliest + weekly.duration);
    RC_ASSERT(OccurrenceAt(window, next->start).has_value());
  }));
}

// --- Whom ---

LabelSet Labels() { return {"id-1", "gpu-rack12-03", "fabric_write", {{"rack", "12"}, {"leaf", "leaf-3"}}}; }

bool MatchesOne(Matcher matcher) {
  MaintenanceWindow window = Once("2026-05-01T10:00:00Z", "2026-05-01T11:00:00Z");
  window.matchers = {std::move(matcher)};
  return Matches(window, Labels());
}

TEST(WindowMatching, NodeMatchesHostnameOrId) {
  EXPECT_TRUE(MatchesOne({"node", MatchOperator::kIn, {"gpu-rack12-03"}}));
  EXPECT_TRUE(MatchesOne({"node", MatchOperator::kIn, {"x", "id-1"}}));
  EXPECT_FALSE(MatchesOne({"node", MatchOperator::kIn, {"GPU-rack12-03"}}));
  EXPECT_FALSE(MatchesOne({"node", MatchOperator::kNotIn, {"id-1"}}));
  EXPECT_FALSE(MatchesOne({"node", MatchOperator::kNotGlob, {"gpu-*"}}));
  EXPECT_TRUE(MatchesOne({"node", MatchOperator::kNotIn, {"id-2"}}));
}

TEST(WindowMatching, AMissingLabelFitsOnlyNegatives) {
  EXPECT_FALSE(MatchesOne({"rail", MatchOperator::kIn, {"0"}}));
  EXPECT_FALSE(MatchesOne({"rail", MatchOperator::kGlob, {"*"}}));
  EXPECT_TRUE(MatchesOne({"rail", MatchOperator::kNotIn, {"0"}}));
  EXPECT_TRUE(MatchesOne({"rail", MatchOperator::kNotGlob, {"*"}}));
}

TEST(WindowMatching, AllMatchersMustHold) {
  MaintenanceWindow window = Once("2026-05-01T10:00:00Z", "2026-05-01T11:00:00Z");
  window.matchers = {{"rack", MatchOperator::kIn, {"12"}}, {"probe", MatchOperator::kGlob, {"fabric_*"}}};
  EXPECT_TRUE(Matches(window, Labels()));
  window.matchers.push_back({"leaf", MatchOperator::kNotIn, {"leaf-3"}});
  EXPECT_FALSE(Matches(window, Labels()));
}

TEST(WindowMatching, ASiteLabelCannotStandInForTheNodesName) {
  LabelSet labels = Labels();
  labels.site["node"] = "other";
  MaintenanceWindow window = Once("2026-05-01T10:00:00Z", "2026-05-01T11:00:00Z");
  window.matchers = {{"node", MatchOperator::kIn, {"other"}}};
  EXPECT_FALSE(Matches(window, labels));
}

TEST(WindowMatching, GlobsAreAnchoredAndCaseSensitive) {
  EXPECT_TRUE(GlobMatches("gpu-*-0?", "gpu-rack12-03"));
  EXPECT_FALSE(GlobMatches("gpu", "gpu-1"));
  EXPECT_FALSE(GlobMatches("1", "gpu-1"));
  EXPECT_FALSE(GlobMatches("GPU-*", "gpu-1"));
  EXPECT_TRUE(GlobMatches("*", ""));
  EXPECT_TRUE(GlobMatches("", ""));
  EXPECT_FALSE(GlobMatches("?", ""));
  EXPECT_FALSE(GlobMatches("", "a"));
  EXPECT_TRUE(GlobMatches("n?de",
                          "n\xc3\xb6"
                          "de"));
  EXPECT_FALSE(GlobMatches("[a-z]", "a"));
}

bool OracleGlob(absl::string_view glob, absl::string_view text) {
  if (glob.empty()) return text.empty();
  if (glob[0] == '*') {
    for (size_t skip = 0; skip <= text.size(); ++skip)
      if (OracleGlob(glob.substr(1), text.substr(skip))) return true;
    return false;
  }
  return !text.empty() && (glob[0] == '?' || glob[0] == text[0]) &&
         OracleGlob(glob.substr(1), text.substr(1));
}

TEST(WindowMatching, GlobsAgreeWithARecursiveOracle) {
  EXPECT_TRUE(rc::check("glob", [] {
    const auto string_of = [](const std::string& letters, size_t limit) {
      return *rc::gen::container<std::string>(*rc::gen::inRange<size_t>(0, limit),
                                              rc::gen::elementOf(letters));
    };
    const std::string glob = string_of("ab*?", 10);
    const std::string text = string_of("ab", 12);
    RC_ASSERT(GlobMatches(glob, text) == OracleGlob(glob, text));
  }));
}

TEST(WindowMatching, AHostileGlobIsDecidedAtOnce) {
  std::string glob;
  for (int i = 0; i < 100; ++i) glob += "a*";
  // Exponential matchers would not come back from this.
  EXPECT_FALSE(GlobMatches(glob + "b", std::string(5000, 'a')));
}

// --- Muting of findings ---

const Node* Lookup(absl::string_view id) {
  static const auto& nodes = *new std::map<std::string, Node, std::less<>>{
      {"id-a", {"id-a", "node-a", {{"rack", "1"}}, {}, {}, {}}},
      {"id-b", {"id-b", "node-b", {{"rack", "1"}}, {}, {}, {}}},
      {"id-c", {"id-c", "node-c", {{"rack", "2"}}, {}, {}, {}}}};
  const auto it = nodes.find(std::string(id));
  return it == nodes.end() ? nullptr : &it->second;
}

MaintenanceWindow On(std::string id, std::vector<Matcher> matchers) {
  MaintenanceWindow window = Once("2026-05-01T10:00:00Z", "2026-05-01T11:00:00Z");
  window.id = std::move(id);
  window.matchers = std::move(matchers);
  return window;
}

Finding FindingOn(FindingScope scope, std::vector<std::string> node_ids) {
  Finding finding;
  finding.scope = scope;
  finding.node_ids = std::move(node_ids);
  finding.probe = "fabric_write";
  return finding;
}

std::vector<std::string> Muted(const Finding& finding, const std::vector<MaintenanceWindow>& windows) {
  return MutedBy(finding, Lookup, windows, T("2026-05-01T10:30:00Z"));
}

using Ids = std::vector<std::string>;

TEST(WindowMuting, APairIsMutedWhenEitherSuspectEndIsCovered) {
  const MaintenanceWindow on_a = On("mw-a", {{"node", MatchOperator::kIn, {"node-a"}}});
  EXPECT_EQ(Muted(FindingOn(FindingScope::kPair, {"id-a", "id-c"}), {on_a}), Ids{"mw-a"});
  EXPECT_EQ(Muted(FindingOn(FindingScope::kPair, {"id-b", "id-c"}), {on_a}), Ids{});
}

TEST(WindowMuting, BlameFixedOnTheOtherEndIsNotMuted) {
  const MaintenanceWindow on_a = On("mw-a", {{"node", MatchOperator::kIn, {"node-a"}}});
  EXPECT_EQ(Muted(FindingOn(FindingScope::kNode, {"id-b"}), {on_a}), Ids{});
}

TEST(WindowMuting, ALeafIsMutedOnlyWhenAllItsNodesAre) {
  const MaintenanceWindow on_a = On("mw-a", {{"node", MatchOperator::kIn, {"node-a"}}});
  const MaintenanceWindow on_b = On("mw-b", {{"node", MatchOperator::kIn, {"id-b"}}});
  const Finding leaf = FindingOn(FindingScope::kLeaf, {"id-a", "id-b"});
  EXPECT_EQ(Muted(leaf, {on_a}), Ids{});
  EXPECT_EQ(Muted(leaf, {on_a, on_b}), (Ids{"mw-a", "mw-b"}));
}

TEST(WindowMuting, AFleetFindingIsMutedOnlyByAWindowOnItsProbeAlone) {
  const Finding fleet = FindingOn(FindingScope::kFleet, {});
  EXPECT_EQ(Muted(fleet, {On("mw-1", {{"node", MatchOperator::kGlob, {"*"}}})}), Ids{});
  EXPECT_EQ(Muted(fleet, {On("mw-2", {{"probe", MatchOperator::kIn, {"fabric_write"}},
                                      {"rack", MatchOperator::kNotIn, {"9"}}})}),
            Ids{});
  EXPECT_EQ(Muted(fleet, {On("mw-3", {{"probe", MatchOperator::kIn, {"fabric_write"}}})}), Ids{"mw-3"});
  EXPECT_EQ(Muted(fleet, {On("mw-4", {{"probe", MatchOperator::kIn, {"other"}}})}), Ids{});
}

TEST(WindowMuting, AMissingAgentIsMutedByItsNodeAndNotByAProbe) {
  Finding missing = FindingOn(FindingScope::kNode, {"id-a"});
  missing.kind = FindingKind::kAgentMissing;
  missing.probe.clear();
  EXPECT_EQ(Muted(missing, {On("mw-1", {{"rack", MatchOperator::kIn, {"1"}}})}), Ids{"mw-1"});
  EXPECT_EQ(Muted(missing, {On("mw-2", {{"probe", MatchOperator::kGlob, {"*"}}})}), Ids{});
}

TEST(WindowMuting, ANodeThatJoinsDuringTheWindowIsCovered) {
  const MaintenanceWindow rack = On("mw-1", {{"rack", MatchOperator::kIn, {"2"}}});
  EXPECT_EQ(Muted(FindingOn(FindingScope::kNode, {"id-c"}), {rack}), Ids{"mw-1"});
}

TEST(WindowMuting, ANodeThatIsNotKnownAnyMoreIsMatchedByItsId) {
  const MaintenanceWindow gone = On("mw-1", {{"node", MatchOperator::kIn, {"id-gone"}}});
  EXPECT_EQ(Muted(FindingOn(FindingScope::kNode, {"id-gone"}), {gone}), Ids{"mw-1"});
}

// --- Validation ---

const absl::Time kNow = absl::FromUnixSeconds(1777600000);

MaintenanceWindow Valid() { return Window(OneOff{kNow, kNow + absl::Hours(1)}); }
MaintenanceWindow ValidWeekly() {
  return Window(
      Weekly{{absl::Weekday::sunday}, 120, absl::Hours(3), "Europe/Berlin", kNow + absl::Hours(24 * 90)});
}

std::string ProblemsOf(const MaintenanceWindow& window) {
  return std::string(ValidateWindow(window, kNow).message());
}

TEST(WindowValidation, SoundWindowsPass) {
  EXPECT_EQ(ProblemsOf(Valid()), "");
  EXPECT_EQ(ProblemsOf(ValidWeekly()), "");
}

TEST(WindowValidation, ThirtyDaysPassAndASecondMoreDoesNot) {
  EXPECT_EQ(ProblemsOf(Window(OneOff{kNow, kNow + absl::Hours(720)})), "");
  EXPECT_NE(ProblemsOf(Window(OneOff{kNow, kNow + absl::Hours(720) + absl::Seconds(1)})), "");
  EXPECT_NE(ProblemsOf(Window(OneOff{kNow, kNow})), "");
  EXPECT_NE(ProblemsOf(Window(OneOff{kNow - absl::Hours(2), kNow})), "");
}

TEST(WindowValidation, AZoneThatDoesNotLoadIsRefused) {
  for (const char* zone : {"", "Europe/Berlinn", "CEST", "../../etc/passwd"}) {
    MaintenanceWindow window = ValidWeekly();
    std::get<Weekly>(window.schedule).time_zone = zone;
    EXPECT_TRUE(absl::StrContains(ProblemsOf(window), "time zone")) << zone;
  }
}

TEST(WindowValidation, AWindowThatOnlyExcludesIsRefused) {
  MaintenanceWindow window = Valid();
  window.matchers = {{"node", MatchOperator::kNotIn, {"x"}}, {"rack", MatchOperator::kNotGlob, {"r*"}}};
  EXPECT_TRUE(absl::StrContains(ProblemsOf(window), "at least one matcher"));
  window.matchers.clear();
  EXPECT_NE(ProblemsOf(window), "");
}

TEST(WindowValidation, EveryProblemIsInTheOneMessage) {
  MaintenanceWindow window =
      Window(Weekly{{}, 1440, absl::Seconds(59), "Nowhere/At_All", kNow + absl::Hours(24 * 400)});
  window.matchers = {{"", MatchOperator::kIn, {}}};
  window.reason.clear();
  window.created_by = "a\x1b[31m";
  const std::string problems = ProblemsOf(window);
  for (const char* part :
       {"label", "values", "weekday", "1439", "1 minute", "until", "Nowhere", "reason", "created_by"})
    EXPECT_TRUE(absl::StrContains(problems, part)) << part << " in " << problems;
}

TEST(WindowValidation, TextHasLimitsInCharactersAndNoControls) {
  MaintenanceWindow window = Valid();
  window.reason.clear();
  for (int i = 0; i < 4096; ++i) window.reason += "\xe8\x8a\x82";
  EXPECT_EQ(ProblemsOf(window), "");
  window.reason += "x";
  EXPECT_NE(ProblemsOf(window), "");
  window.reason = "two\nlines\tare fine";
  EXPECT_EQ(ProblemsOf(window), "");
  window.reason = "\xff";
  EXPECT_NE(ProblemsOf(window), "");
  window = Valid();
  window.matchers.front().values = {"node\n1"};
  EXPECT_NE(ProblemsOf(window), "");
}

TEST(WindowValidation, CountsHaveLimits) {
  MaintenanceWindow window = Valid();
  window.matchers.assign(32, window.matchers.front());
  window.matchers.front().values.assign(1000, "x");
  EXPECT_EQ(ProblemsOf(window), "");
  window.matchers.front().values.push_back("x");
  EXPECT_NE(ProblemsOf(window), "");
  window.matchers.assign(33, Valid().matchers.front());
  EXPECT_NE(ProblemsOf(window), "");
}

}  // namespace
}  // namespace weft
