#include "server/detect/liveness.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

NodeView Gone(absl::Duration ago) {
  NodeView node;
  node.node_id = "a";
  node.last_seen = kNow - ago;
  return node;
}

TEST(LivenessTest, AnAgentIsMissingAfterExactlyTheTimeGiven) {
  EXPECT_THAT(LivenessFindings({Gone(absl::Minutes(5) - absl::Nanoseconds(1))}, kNow, {}), IsEmpty());
  const std::vector<Finding> findings = LivenessFindings({Gone(absl::Minutes(5))}, kNow, {});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].kind, FindingKind::kAgentMissing);
  EXPECT_THAT(findings[0].node_ids, ElementsAre("a"));
  EXPECT_EQ(findings[0].since, kNow - absl::Minutes(5));
}

TEST(LivenessTest, AConnectedAgentIsNeverMissing) {
  NodeView node = Gone(absl::Hours(1));
  node.connected = true;
  EXPECT_THAT(LivenessFindings({node}, kNow, {}), IsEmpty());
}

TEST(LivenessTest, AServerThatHasJustStartedWaitsForItsAgents) {
  LivenessOptions options;
  options.missing_after = absl::Seconds(20);
  options.reconnect_spread = absl::Seconds(30);
  options.server_start = kNow - absl::Seconds(59);
  EXPECT_THAT(LivenessFindings({Gone(absl::Hours(1))}, kNow, options), IsEmpty());
  options.server_start = kNow - absl::Seconds(60);
  EXPECT_THAT(LivenessFindings({Gone(absl::Hours(1))}, kNow, options), SizeIs(1));
  options.missing_after = absl::Minutes(2);
  EXPECT_THAT(LivenessFindings({Gone(absl::Hours(1))}, kNow, options), IsEmpty());
}

TEST(LivenessTest, AClockMoreThanAMinuteOffInEitherDirectionIsAWarning) {
  NodeView node = Gone(absl::ZeroDuration());
  node.connected = true;
  for (const int seconds : {60, -60}) {
    node.clock_offset = absl::Seconds(seconds);
    EXPECT_THAT(LivenessFindings({node}, kNow, {}), IsEmpty());
  }
  for (const int seconds : {61, -3600}) {
    node.clock_offset = absl::Seconds(seconds);
    const std::vector<Finding> findings = LivenessFindings({node}, kNow, {});
    ASSERT_THAT(findings, SizeIs(1));
    EXPECT_EQ(findings[0].kind, FindingKind::kClockSkew);
    EXPECT_EQ(findings[0].severity, Severity::kWarning);
  }
  EXPECT_EQ(LivenessFindings({node}, kNow, {})[0].summary, "the clock is 1h behind the server's");
}

}  // namespace
}  // namespace weft
