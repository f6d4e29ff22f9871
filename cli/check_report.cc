#include "cli/check_report.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/text_of.h"
#include "cli/time_text.h"

namespace weft::cli {
namespace {

// Missing agents are the state's business: they say that nothing is known, not that the node is bad.
bool Blames(const v1::Finding& finding) {
  const bool own = finding.scope() == v1::FINDING_SCOPE_NODE || finding.scope() == v1::FINDING_SCOPE_NIC;
  return own && finding.severity() != v1::SEVERITY_INFO && finding.kind() != v1::FINDING_KIND_AGENT_MISSING;
}

const v1::Finding* Worst(const Findings& findings) {
  const v1::Finding* worst = nullptr;
  for (const v1::Finding& each : findings) {
    if (Blames(each) && (worst == nullptr || each.severity() > worst->severity())) worst = &each;
  }
  return worst;
}

// A level without anything to compare it with says nothing of health.
bool IsJudged(const v1::NodeStatus& status) {
  return status.bandwidth_bytes_per_second() <= 0 || status.expected_bandwidth_bytes_per_second() > 0;
}

Verdict VerdictOf(const v1::NodeStatus& status, const v1::Finding* worst) {
  if (worst != nullptr) {
    return worst->severity() == v1::SEVERITY_WARNING ? Verdict::kWarning : Verdict::kCritical;
  }
  if (status.state() == v1::NODE_STATE_OK && IsJudged(status)) return Verdict::kOk;
  return status.state() == v1::NODE_STATE_DEGRADED ? Verdict::kCritical : Verdict::kUnknown;
}

std::string BandwidthPart(const v1::NodeStatus& status) {
  const std::string now = BandwidthText(status.bandwidth_bytes_per_second());
  const std::string percent = PercentText(status);
  if (now.empty()) return "no bandwidth measured";
  if (percent.empty()) return absl::StrCat(now, ", no baseline yet");
  return absl::StrCat(now, ", ", percent, " of expected ",
                      FormatBandwidth(status.expected_bandwidth_bytes_per_second()));
}

std::string StatePart(const v1::NodeStatus& status, absl::Time now) {
  switch (status.state()) {
    case v1::NODE_STATE_OK:
      return BandwidthPart(status);
    case v1::NODE_STATE_DEGRADED:
      return absl::StrCat("degraded, ", BandwidthPart(status));
    case v1::NODE_STATE_MISSING:
      return absl::StrCat("agent not connected, last seen ",
                          AgeText(TimeOf(status.has_last_seen_time(), status.last_seen_time()), now), " ago");
    case v1::NODE_STATE_STALE:
      return absl::StrCat("last good result ",
                          AgeText(TimeOf(status.has_last_success_time(), status.last_success_time()), now),
                          " ago");
    default:
      return "never measured";
  }
}

// The line names the node already.
std::string SummaryOn(absl::string_view node, absl::string_view summary) {
  if (absl::ConsumePrefix(&summary, node) && !absl::ConsumePrefix(&summary, ": "))
    absl::ConsumePrefix(&summary, " ");
  return std::string(summary);
}

std::string FindingPart(const v1::Finding& finding, absl::string_view node) {
  const std::string since =
      finding.has_since_time()
          ? absl::StrCat(" since ", LocalTimeText(TimeOf(true, finding.since_time()), LocalZone()))
          : "";
  return absl::StrCat(finding.summary().empty() ? "degraded" : SummaryOn(node, finding.summary()), since);
}

CheckReport MakeReport(Verdict verdict, std::string node, std::string detail) {
  std::string line =
      EscapeControl(ToValidUtf8(absl::StrCat(VerdictName(verdict), ": weft: ", node, ": ", detail)));
  return {verdict, std::move(node), std::move(detail), std::move(line)};
}

}  // namespace

const char* VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "OK";
    case Verdict::kWarning:
      return "WARNING";
    case Verdict::kCritical:
      return "CRITICAL";
    default:
      return "UNKNOWN";
  }
}

CheckReport ReportOf(const v1::NodeStatus& status, const Findings& findings, absl::Time now) {
  const v1::Finding* worst = Worst(findings);
  const std::string& hostname = status.node().hostname();
  const std::string what = worst == nullptr ? StatePart(status, now) : FindingPart(*worst, hostname);
  return MakeReport(VerdictOf(status, worst), hostname,
                    absl::StrCat(what, status.muted() ? " (in maintenance)" : ""));
}

CheckReport ReportOf(const std::string& node, const absl::Status& failure) {
  return MakeReport(Verdict::kUnknown, node, std::string(failure.message()));
}

int CheckExitCode(Verdict verdict, ExitStyle style) {
  if (verdict == Verdict::kOk) return 0;
  switch (style) {
    case ExitStyle::kNpd:
      return verdict == Verdict::kUnknown ? 2 : 1;
    case ExitStyle::kBool:
      return 1;
    default:
      return verdict == Verdict::kWarning ? 1 : verdict == Verdict::kCritical ? 2 : 3;
  }
}

}  // namespace weft::cli
