#include "bench/sim/floor_strategy.h"

#include <algorithm>

namespace weft::sim {
namespace {

constexpr double kFloor = 0.85;

Finding MakeFinding(FindingKind kind, FindingScope scope, std::vector<std::string> nodes, std::string part) {
  Finding finding;
  finding.kind = kind;
  finding.scope = scope;
  finding.node_ids = std::move(nodes);
  finding.part = std::move(part);
  return finding;
}

}  // namespace

std::vector<Run> FloorStrategy::Plan(const std::vector<Candidate>& candidates, bool begins_round,
                                     absl::Time now) {
  if (begins_round) {
    queue_.clear();
    std::vector<size_t> nodes;
    for (const Candidate& candidate : candidates) {
      if (!candidate.in_maintenance) nodes.push_back(candidate.node);
    }
    BeginRound(nodes);
  } else if (queue_.empty()) {
    NextStage();
  }
  std::vector<Run> runs;
  std::set<size_t> taken;
  std::deque<std::vector<size_t>> waiting;
  for (std::vector<size_t>& nodes : queue_) {
    const bool is_free =
        std::none_of(nodes.begin(), nodes.end(), [&](size_t n) { return taken.count(n) != 0; });
    if (!is_free || runs.size() >= scenario_.max_concurrent_runs) {
      waiting.push_back(std::move(nodes));
      continue;
    }
    taken.insert(nodes.begin(), nodes.end());
    Run& run = runs.emplace_back();
    run.plan_time = now;
    for (const size_t node : nodes) run.participants.push_back(NodeId(node));
  }
  queue_ = std::move(waiting);
  return runs;
}

void FloorStrategy::EnqueuePairs(const std::vector<size_t>& shuffled) {
  for (size_t i = 0; i + 1 < shuffled.size(); i += 2) Enqueue({shuffled[i], shuffled[i + 1]});
}

std::vector<size_t> FloorStrategy::Shuffled(std::vector<size_t> nodes) {
  for (size_t i = nodes.size(); i > 1; --i) std::swap(nodes[i - 1], nodes[random_() % i]);
  return nodes;
}

FloorStrategy::Verdict FloorStrategy::VerdictOf(const PlayedRun& played) const {
  Verdict verdict;
  for (const Result& result : played.results) {
    verdict.failed |= result.outcome != Outcome::kOk;
    for (size_t rail = 0; rail < result.measurements.size(); ++rail) {
      if (result.measurements[rail].value < kFloor * scenario_.bandwidth) verdict.slow.insert(rail);
    }
  }
  for (size_t rail = 0; verdict.failed && rail < scenario_.rails; ++rail) verdict.slow.insert(rail);
  return verdict;
}

void FloorStrategy::Observe(const PlayedRun& played) { Judge(played.nodes, VerdictOf(played)); }

std::vector<Finding> FloorStrategy::Findings() {
  std::vector<Finding> findings;
  for (const auto& [node, verdict] : blamed_) {
    const FindingKind kind = verdict.failed ? FindingKind::kProbeFailure : FindingKind::kBandwidthDrop;
    if (verdict.slow.size() == scenario_.rails) {
      findings.push_back(MakeFinding(kind, FindingScope::kNode, {NodeId(node)}, ""));
      continue;
    }
    for (const size_t rail : verdict.slow) {
      findings.push_back(MakeFinding(kind, FindingScope::kNic, {NodeId(node)}, NicName(rail)));
    }
  }
  for (const auto& [a, b] : blamed_pairs_) {
    findings.push_back(
        MakeFinding(FindingKind::kBandwidthDrop, FindingScope::kPair, {NodeId(a), NodeId(b)}, ""));
  }
  return findings;
}

}  // namespace weft::sim
