#include "cli/window_request.h"

#include "cli/time_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 2026-12-01 12:00 in Berlin.
absl::Time Noon() { return absl::FromCivil(absl::CivilSecond(2026, 12, 1, 11, 0, 0), absl::UTCTimeZone()); }

WindowFlags OneHour() {
  WindowFlags flags;
  flags.nodes = "gpu[1-2]";
  flags.length = "1h";
  flags.reason = "switch";
  flags.by = "ann";
  return flags;
}

WindowFlags Tuesdays() {
  WindowFlags flags = OneHour();
  flags.weekly = "Tue,Sun";
  flags.at = "22:00";
  flags.length = "6h";
  flags.zone = "Europe/Berlin";
  flags.until = "2027-06-30";
  return flags;
}

absl::StatusOr<v1::MaintenanceWindow> Build(const WindowFlags& flags) {
  return BuildWindow(flags, Noon(), *ParseZone("Europe/Berlin"));
}

std::string ErrorOf(const WindowFlags& flags) { return std::string(Build(flags).status().message()); }

TEST(BuildWindowTest, AOneOffStartsNowAndLastsAsLongAsAsked) {
  const auto window = Build(OneHour());
  ASSERT_TRUE(window.ok()) << window.status();
  ASSERT_EQ(window->matchers_size(), 1);
  EXPECT_EQ(window->matchers(0).label(), "node");
  EXPECT_EQ(window->matchers(0).operator_(), v1::MATCH_OPERATOR_IN);
  EXPECT_THAT(window->matchers(0).values(), ElementsAre("gpu1", "gpu2"));
  EXPECT_EQ(window->one_off().start_time().seconds(), absl::ToUnixSeconds(Noon()));
  EXPECT_EQ(window->one_off().end_time().seconds(), absl::ToUnixSeconds(Noon()) + 3600);
  EXPECT_EQ(window->reason(), "switch");
  EXPECT_EQ(window->created_by(), "ann");
}

TEST(BuildWindowTest, AnEndGivenAsTimeOfDayComesAfterTheStart) {
  WindowFlags flags = OneHour();
  flags.length.clear();
  flags.start = "22:00";
  flags.end = "06:00";
  const auto window = Build(flags);
  ASSERT_TRUE(window.ok()) << window.status();
  EXPECT_EQ(window->one_off().start_time().seconds(), absl::ToUnixSeconds(Noon() + absl::Hours(10)));
  EXPECT_EQ(window->one_off().end_time().seconds(), absl::ToUnixSeconds(Noon() + absl::Hours(18)));
}

TEST(BuildWindowTest, GlobsAndNegationsChooseTheOperator) {
  WindowFlags flags = OneHour();
  flags.nodes = "gpu*,login1";
  flags.matches = {"rack=r12,r13", "probe!=nccl*", "leaf!=l1"};
  const auto window = Build(flags);
  ASSERT_TRUE(window.ok()) << window.status();
  ASSERT_EQ(window->matchers_size(), 4);
  EXPECT_EQ(window->matchers(0).operator_(), v1::MATCH_OPERATOR_GLOB);
  EXPECT_EQ(window->matchers(1).operator_(), v1::MATCH_OPERATOR_IN);
  EXPECT_EQ(window->matchers(2).label(), "probe");
  EXPECT_EQ(window->matchers(2).operator_(), v1::MATCH_OPERATOR_NOT_GLOB);
  EXPECT_EQ(window->matchers(3).operator_(), v1::MATCH_OPERATOR_NOT_IN);
}

TEST(BuildWindowTest, AWeeklyWindowCarriesItsZone) {
  const auto window = Build(Tuesdays());
  ASSERT_TRUE(window.ok()) << window.status();
  EXPECT_THAT(window->weekly().weekdays(), ElementsAre(v1::WEEKDAY_TUESDAY, v1::WEEKDAY_SUNDAY));
  EXPECT_EQ(window->weekly().start_minute(), 1320u);
  EXPECT_EQ(window->weekly().duration().seconds(), 6 * 3600);
  EXPECT_EQ(window->weekly().time_zone(), "Europe/Berlin");
  EXPECT_EQ(window->weekly().until_time().seconds(),
            absl::ToUnixSeconds(absl::FromCivil(absl::CivilDay(2027, 6, 30), *ParseZone("Europe/Berlin"))));
}

TEST(BuildWindowTest, ErrorsNameTheFlag) {
  const auto with = [](WindowFlags base, std::string WindowFlags::*member, const std::string& value) {
    base.*member = value;
    return ErrorOf(base);
  };
  EXPECT_THAT(with(OneHour(), &WindowFlags::nodes, ""), HasSubstr("--nodes"));
  EXPECT_THAT(with(OneHour(), &WindowFlags::nodes, "gpu[1"), HasSubstr("--nodes"));
  EXPECT_THAT(with(OneHour(), &WindowFlags::start, "soon"), HasSubstr("--start"));
  EXPECT_THAT(with(OneHour(), &WindowFlags::end, "23:00"), HasSubstr("--for 2h or --end"));
  EXPECT_THAT(with(OneHour(), &WindowFlags::length, ""), HasSubstr("--for 2h or --end"));
  EXPECT_THAT(with(OneHour(), &WindowFlags::length, "long"), HasSubstr("--for"));
  EXPECT_THAT(with(OneHour(), &WindowFlags::at, "22:00"), HasSubstr("--weekly"));
  EXPECT_THAT(with(OneHour(), &WindowFlags::zone, "Berlin"), HasSubstr("--tz"));
  EXPECT_THAT(with(OneHour(), &WindowFlags::reason, ""), HasSubstr("--reason"));
  EXPECT_THAT(with(OneHour(), &WindowFlags::by, ""), HasSubstr("--by"));
  EXPECT_THAT(with(Tuesdays(), &WindowFlags::weekly, "Funday"), HasSubstr("--weekly"));
  EXPECT_THAT(with(Tuesdays(), &WindowFlags::at, ""), HasSubstr("--at"));
  EXPECT_THAT(with(Tuesdays(), &WindowFlags::zone, ""), HasSubstr("--tz"));
  EXPECT_THAT(with(Tuesdays(), &WindowFlags::until, ""), HasSubstr("--until"));
  EXPECT_THAT(with(Tuesdays(), &WindowFlags::start, "now"), HasSubstr("--start"));
  WindowFlags flags = OneHour();
  flags.matches = {"rack"};
  EXPECT_THAT(ErrorOf(flags), HasSubstr("--match"));
}

}  // namespace
}  // namespace weft::cli
