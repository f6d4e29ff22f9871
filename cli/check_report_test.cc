#include "cli/check_report.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kNowSeconds = 1767225600;
absl::Time Now() { return absl::FromUnixSeconds(kNowSeconds); }

v1::NodeStatus Status(v1::NodeState state) {
  v1::NodeStatus status;
  status.mutable_node()->set_hostname("gpu017");
  status.set_state(state);
  status.set_bandwidth_bytes_per_second(24e9);
  status.set_expected_bandwidth_bytes_per_second(25e9);
  status.set_bandwidth_ratio(0.96);
  status.mutable_last_seen_time()->set_seconds(kNowSeconds - 600);
  status.mutable_last_success_time()->set_seconds(kNowSeconds - 7200);
  return status;
}

Findings One(v1::FindingScope scope, v1::Severity severity,
             v1::FindingKind kind = v1::FINDING_KIND_BANDWIDTH_DROP) {
  Findings findings;
  v1::Finding& finding = *findings.Add();
  finding.set_scope(scope);
  finding.set_severity(severity);
  finding.set_kind(kind);
  finding.set_summary("writes at 61% of expected");
  return findings;
}

TEST(CheckReportTest, OnlyAMeasuredNodeWithoutFindingsIsOk) {
  EXPECT_EQ(ReportOf(Status(v1::NODE_STATE_OK), {}, Now()).line,
            "OK: weft: gpu017: 24.0 GB/s, 96% of expected 25.0 GB/s");
  for (const v1::NodeState state : {v1::NODE_STATE_UNSPECIFIED, v1::NODE_STATE_MISSING, v1::NODE_STATE_STALE,
                                    static_cast<v1::NodeState>(99)}) {
    EXPECT_EQ(ReportOf(Status(state), {}, Now()).verdict, Verdict::kUnknown) << state;
  }
  EXPECT_EQ(ReportOf(Status(v1::NODE_STATE_DEGRADED), {}, Now()).verdict, Verdict::kCritical);
}

TEST(CheckReportTest, ALevelWithoutABaselineSaysNothingOfHealth) {
  v1::NodeStatus status = Status(v1::NODE_STATE_OK);
  status.clear_expected_bandwidth_bytes_per_second();
  status.clear_bandwidth_ratio();
  EXPECT_EQ(ReportOf(status, {}, Now()).verdict, Verdict::kUnknown);
  EXPECT_EQ(ReportOf(status, {}, Now()).line, "UNKNOWN: weft: gpu017: 24.0 GB/s, no baseline yet");
}

TEST(CheckReportTest, SaysHowOldItsKnowledgeIs) {
  EXPECT_THAT(ReportOf(Status(v1::NODE_STATE_MISSING), {}, Now()).line, HasSubstr("last seen 10m ago"));
  EXPECT_THAT(ReportOf(Status(v1::NODE_STATE_STALE), {}, Now()).line, HasSubstr("last good result 2h ago"));
}

TEST(CheckReportTest, TheWorstFindingAgainstTheNodeDecides) {
  const v1::NodeStatus status = Status(v1::NODE_STATE_DEGRADED);
  const auto warning = ReportOf(status, One(v1::FINDING_SCOPE_NODE, v1::SEVERITY_WARNING), Now());
  EXPECT_EQ(warning.line, "WARNING: weft: gpu017: writes at 61% of expected");
  Findings named = One(v1::FINDING_SCOPE_NODE, v1::SEVERITY_WARNING);
  named[0].set_summary("gpu017: writes at 61% of expected");
  EXPECT_EQ(ReportOf(status, named, Now()).line, warning.line) << "the node stands there once";
  named[0].set_summary("gpu017 mlx5_0: writes at 61% of expected");
  EXPECT_EQ(ReportOf(status, named, Now()).line, "WARNING: weft: gpu017: mlx5_0: writes at 61% of expected");
  EXPECT_EQ(ReportOf(status, One(v1::FINDING_SCOPE_NIC, v1::SEVERITY_CRITICAL), Now()).verdict,
            Verdict::kCritical);
  EXPECT_EQ(ReportOf(Status(v1::NODE_STATE_MISSING), One(v1::FINDING_SCOPE_NODE, v1::SEVERITY_WARNING), Now())
                .verdict,
            Verdict::kWarning);
}

TEST(CheckReportTest, PathsNotesAndAbsenceDoNotBlameTheNode) {
  EXPECT_EQ(
      ReportOf(Status(v1::NODE_STATE_OK), One(v1::FINDING_SCOPE_PAIR, v1::SEVERITY_CRITICAL), Now()).verdict,
      Verdict::kOk);
  EXPECT_EQ(
      ReportOf(Status(v1::NODE_STATE_OK), One(v1::FINDING_SCOPE_NODE, v1::SEVERITY_INFO), Now()).verdict,
      Verdict::kOk);
  EXPECT_EQ(ReportOf(Status(v1::NODE_STATE_MISSING),
                     One(v1::FINDING_SCOPE_NODE, v1::SEVERITY_WARNING, v1::FINDING_KIND_AGENT_MISSING), Now())
                .verdict,
            Verdict::kUnknown);
}

TEST(CheckReportTest, MaintenanceIsSaidButChangesNothing) {
  v1::NodeStatus status = Status(v1::NODE_STATE_DEGRADED);
  status.set_muted(true);
  const auto report = ReportOf(status, {}, Now());
  EXPECT_EQ(report.verdict, Verdict::kCritical);
  EXPECT_THAT(report.line, HasSubstr("(in maintenance)"));
}

TEST(CheckReportTest, NamesAndMessagesStayOnOneLine) {
  v1::NodeStatus status = Status(v1::NODE_STATE_OK);
  status.mutable_node()->set_hostname("a\nOK: weft: b\x1b[0m");
  const auto report = ReportOf(status, {}, Now());
  EXPECT_EQ(report.line.find('\n'), std::string::npos);
  EXPECT_EQ(report.line.find('\x1b'), std::string::npos);
  const auto failed = ReportOf("n", absl::UnavailableError("down\nreally"));
  EXPECT_EQ(failed.verdict, Verdict::kUnknown);
  EXPECT_THAT(failed.line, StartsWith("UNKNOWN: weft: n: down\\x0areally"));
}

TEST(CheckExitCodeTest, EachStyleKeepsItsContract) {
  const auto codes = [](ExitStyle style) {
    return std::vector<int>{CheckExitCode(Verdict::kOk, style), CheckExitCode(Verdict::kWarning, style),
                            CheckExitCode(Verdict::kCritical, style),
                            CheckExitCode(Verdict::kUnknown, style)};
  };
  EXPECT_EQ(codes(ExitStyle::kNagios), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(codes(ExitStyle::kNpd), (std::vector<int>{0, 1, 1, 2}));
  EXPECT_EQ(codes(ExitStyle::kBool), (std::vector<int>{0, 1, 1, 1}));
}

}  // namespace
}  // namespace weft::cli
