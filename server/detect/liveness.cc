#include "server/detect/liveness.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace weft {
namespace {

Finding NodeFinding(const NodeView& node, FindingKind kind, Severity severity) {
  Finding finding;
  finding.kind = kind;
  finding.scope = FindingScope::kNode;
  finding.node_ids = {node.node_id};
  finding.severity = severity;
  finding.confidence = 1;
  return finding;
}

Finding Missing(const NodeView& node) {
  Finding finding = NodeFinding(node, FindingKind::kAgentMissing, Severity::kCritical);
  finding.since = node.last_seen;
  finding.summary =
      node.last_seen == absl::InfinitePast()
          ? "the agent has never been heard of"
          : absl::StrCat("the agent has not been heard of since ",
                         absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", node.last_seen, absl::UTCTimeZone()));
  return finding;
}

Finding Skewed(const NodeView& node) {
  Finding finding = NodeFinding(node, FindingKind::kClockSkew, Severity::kWarning);
  finding.since = node.last_seen;
  finding.summary =
      absl::StrCat("the clock is ", absl::FormatDuration(absl::AbsDuration(node.clock_offset)),
                   node.clock_offset < absl::ZeroDuration() ? " behind" : " ahead of", " the server's");
  return finding;
}

}  // namespace

std::vector<Finding> LivenessFindings(const std::vector<NodeView>& nodes, absl::Time now,
                                      const LivenessOptions& options) {
  const absl::Duration settling = std::max(options.missing_after, 2 * options.reconnect_spread);
  const bool is_settled = now - options.server_start >= settling;
  std::vector<Finding> findings;
  for (const NodeView& node : nodes) {
    if (is_settled && !node.connected && now - node.last_seen >= options.missing_after) {
      findings.push_back(Missing(node));
    }
    if (node.connected && absl::AbsDuration(node.clock_offset) > options.most_clock_skew) {
      findings.push_back(Skewed(node));
    }
  }
  return findings;
}

}  // namespace weft
