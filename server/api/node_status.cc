#include "server/api/node_status.h"

#include <algorithm>
#include <tuple>

#include "convert/convert.h"

namespace weft {
namespace {

bool IsFresh(const NodeLevel& level, absl::Time now, absl::Duration stale_after) {
  return now - level.time <= stale_after;
}

// Orders levels by how much they deserve to be shown; greater is better.
auto Worth(const NodeLevel& level, absl::Time now, absl::Duration stale_after) {
  const bool judged = level.expected > 0 && IsFresh(level, now, stale_after);
  return std::make_tuple(judged, judged ? -level.observed / level.expected : 0.0, level.time);
}

void FillLevel(const NodeLevel& level, v1::NodeStatus* out) {
  out->set_bandwidth_bytes_per_second(level.observed);
  out->set_expected_bandwidth_bytes_per_second(level.expected);
  if (level.expected > 0) out->set_bandwidth_ratio(level.observed / level.expected);
}

void FillTimes(const NodeFacts& facts, absl::Time now, v1::NodeStatus* out) {
  const NodeRecord& record = facts.record;
  ToProto(record.clock_offset, out->mutable_clock_offset());
  if (record.last_seen != absl::InfinitePast()) ToProto(record.last_seen, out->mutable_last_seen_time());
  if (record.last_success == absl::InfinitePast()) return;
  ToProto(record.last_success, out->mutable_last_success_time());
  ToProto(std::max(absl::ZeroDuration(), now - record.last_success), out->mutable_coverage_age());
}

}  // namespace

bool Blames(const Finding& finding) {
  const bool own = finding.scope == FindingScope::kNode || finding.scope == FindingScope::kNic;
  return own && finding.severity != Severity::kInfo;
}

v1::NodeState StateOf(const NodeFacts& facts, absl::Time now, absl::Duration stale_after) {
  if (!facts.connected) return v1::NODE_STATE_MISSING;
  const auto blames = [](const Episode& episode) { return Blames(episode.finding); };
  if (std::any_of(facts.open.begin(), facts.open.end(), blames)) return v1::NODE_STATE_DEGRADED;
  if (facts.record.last_success == absl::InfinitePast()) return v1::NODE_STATE_UNSPECIFIED;
  return now - facts.record.last_success > stale_after ? v1::NODE_STATE_STALE : v1::NODE_STATE_OK;
}

const NodeLevel* ShownLevel(const std::vector<NodeLevel>& levels, absl::Time now,
                            absl::Duration stale_after) {
  const NodeLevel* best = nullptr;
  for (const NodeLevel& level : levels) {
    if (level.metric != Metric::kWriteBandwidth) continue;
    if (best == nullptr || Worth(*best, now, stale_after) < Worth(level, now, stale_after)) best = &level;
  }
  return best;
}

v1::NodeStatus NodeStatusOf(const NodeFacts& facts, absl::Time now, absl::Duration stale_after) {
  v1::NodeStatus out;
  ToProto(facts.record.node, out.mutable_node());
  out.set_state(StateOf(facts, now, stale_after));
  out.set_muted(facts.muted);
  out.set_connected(facts.connected);
  FillTimes(facts, now, &out);
  if (const NodeLevel* level = ShownLevel(facts.levels, now, stale_after)) FillLevel(*level, &out);
  for (const Episode& episode : facts.open) {
    if (episode.finding.severity != Severity::kInfo) out.add_finding_ids(episode.id);
  }
  return out;
}

}  // namespace weft
