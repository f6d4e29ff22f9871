#include "cli/time_text.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::TimeZone Berlin() { return *ParseZone("Europe/Berlin"); }

// 2026-12-01 12:00 in Berlin.
absl::Time Noon() { return absl::FromCivil(absl::CivilSecond(2026, 12, 1, 11, 0, 0), absl::UTCTimeZone()); }

std::string Utc(absl::StatusOr<absl::Time> time) {
  return time.ok() ? absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", *time, absl::UTCTimeZone())
                   : std::string(time.status().message());
}

std::string Read(absl::string_view text) { return Utc(ParseTime(text, Noon(), Berlin())); }

TEST(ParseTimeTest, ReadsRfc3339AndCivilTimesOfTheZone) {
  EXPECT_EQ(Read("2026-12-01T22:00:00+05:00"), "2026-12-01T17:00:00Z");
  EXPECT_EQ(Read("2026-12-01T22:00:00Z"), "2026-12-01T22:00:00Z");
  EXPECT_EQ(Read("2026-12-01 22:00"), "2026-12-01T21:00:00Z");
  EXPECT_EQ(Read("2026-07-01 22:00:05"), "2026-07-01T20:00:05Z");
  EXPECT_EQ(Read("2026-12-02"), "2026-12-01T23:00:00Z");
  EXPECT_EQ(Read("now"), "2026-12-01T11:00:00Z");
}

TEST(ParseTimeTest, ATimeOfDayIsTheNextOne) {
  EXPECT_EQ(Read("12:00"), "2026-12-01T11:00:00Z");
  EXPECT_EQ(Read("22:00"), "2026-12-01T21:00:00Z");
  EXPECT_EQ(Read("06:30"), "2026-12-02T05:30:00Z");
}

TEST(ParseTimeTest, ASkippedTimeIsRefusedAndARepeatedOneIsTheFirst) {
  EXPECT_THAT(Read("2027-03-28 02:30"), HasSubstr("skips"));
  EXPECT_EQ(Read("2026-10-25 02:30"), "2026-10-25T00:30:00Z");
}

TEST(ParseTimeTest, RefusesOtherText) {
  for (const char* bad :
       {"", "tomorrow", "25:00", "2026-13-01", "22:0", "2026-12-01 22", "infinite-future", "1h\x1b"}) {
    EXPECT_EQ(ParseTime(bad, Noon(), Berlin()).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(ParseDurationTest, ReadsDaysWeeksAndClockUnits) {
  EXPECT_EQ(*ParseDuration("90s"), absl::Seconds(90));
  EXPECT_EQ(*ParseDuration("1h30m"), absl::Minutes(90));
  EXPECT_EQ(*ParseDuration("2d"), absl::Hours(48));
  EXPECT_EQ(*ParseDuration("1w"), absl::Hours(168));
}

TEST(ParseDurationTest, RefusesZeroNegativeEndlessAndUnitless) {
  for (const char* bad : {"", "0s", "-1h", "inf", "400d", "9999999h", "10", "d", "1x"}) {
    EXPECT_FALSE(ParseDuration(bad).ok()) << bad;
  }
}

TEST(ParseSinceTest, TakesAgesAndTimes) {
  EXPECT_EQ(*ParseSince("6h", Noon(), Berlin()), Noon() - absl::Hours(6));
  EXPECT_EQ(Utc(ParseSince("2026-11-30 22:00", Noon(), Berlin())), "2026-11-30T21:00:00Z");
}

TEST(ParseMinuteOfDayTest, ReadsTheWholeDayOnly) {
  EXPECT_EQ(*ParseMinuteOfDay("00:00"), 0u);
  EXPECT_EQ(*ParseMinuteOfDay("23:59"), 1439u);
  for (const char* bad : {"24:00", "12:60", "12", "1:2:3", "-1:00", "aa:bb", ""}) {
    EXPECT_FALSE(ParseMinuteOfDay(bad).ok()) << bad;
  }
}

TEST(ParseWeekdaysTest, ReadsListsAndRanges) {
  using absl::Weekday;
  EXPECT_THAT(*ParseWeekdays("Tue,mon,Tuesday"), ElementsAre(Weekday::monday, Weekday::tuesday));
  EXPECT_THAT(*ParseWeekdays("Sat-Mon"), ElementsAre(Weekday::monday, Weekday::saturday, Weekday::sunday));
  for (const char* bad : {"", "M", "Mon,", "Fun", "Mon-"}) EXPECT_FALSE(ParseWeekdays(bad).ok()) << bad;
}

TEST(ParseZoneTest, KnowsIanaNamesOnly) {
  EXPECT_TRUE(ParseZone("America/New_York").ok());
  EXPECT_FALSE(ParseZone("Berlin").ok());
  EXPECT_FALSE(ParseZone("").ok());
}

TEST(LocalTimeTextTest, NamesTheZone) {
  EXPECT_EQ(LocalTimeText(Noon(), Berlin()), "2026-12-01 12:00:00 CET");
  EXPECT_EQ(LocalTimeText(absl::InfinitePast(), Berlin()), "-");
  EXPECT_EQ(AgeText(Noon() - absl::Hours(3), Noon()), "3h");
  EXPECT_EQ(AgeText(absl::InfinitePast(), Noon()), "-");
}

}  // namespace
}  // namespace weft::cli
