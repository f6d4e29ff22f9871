#include "base/steady_time.h"

#include "gtest/gtest.h"

namespace weft {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1767225600);

TEST(SteadyTimeTest, FollowsAWallClockThatIsRight) {
  SteadyTime time(kStart, absl::Seconds(5));
  EXPECT_EQ(time.At(kStart + absl::Seconds(3), absl::Seconds(8)), kStart + absl::Seconds(3));
}

TEST(SteadyTimeTest, AStepOfHalfADayAndBackLeavesNoJumpAndNoTrace) {
  SteadyTime time(kStart, absl::ZeroDuration());
  absl::Time last = kStart;
  for (int s = 1; s <= 3600; ++s) {
    const absl::Duration step = s > 60 && s <= 660 ? absl::Hours(12) : absl::ZeroDuration();
    const absl::Time now = time.At(kStart + absl::Seconds(s) + step, absl::Seconds(s));
    EXPECT_GT(now, last);
    EXPECT_LE(now - last, absl::Milliseconds(1500));
    last = now;
  }
  EXPECT_EQ(last, kStart + absl::Hours(1));
}

TEST(SteadyTimeTest, NeverGoesBackBeforeItsStart) {
  SteadyTime time(kStart, absl::ZeroDuration());
  EXPECT_GT(time.At(kStart - absl::Hours(1), absl::Seconds(1)), kStart);
}

}  // namespace
}  // namespace weft
