#include "bench/sim/weft_strategy.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace weft::sim {
namespace {

PlannerOptions PlanOf(const Scenario& scenario) {
  PlannerOptions options;
  options.spec.name = "fabric";
  options.period = scenario.period;
  options.max_concurrent_runs = scenario.max_concurrent_runs;
  return options;
}

}  // namespace

WeftStrategy::WeftStrategy(const Scenario& scenario)
    : knows_busy_(scenario.planner_knows_busy),
      detector_(std::make_unique<Detector>(DetectorOptions{})),
      planner_(PlanOf(scenario)),
      nodes_(scenario.nodes) {
  for (size_t i = 0; i < nodes_.size(); ++i) nodes_[i].id = NodeId(i);
}

std::vector<Run> WeftStrategy::Plan(const std::vector<Candidate>& candidates, bool, absl::Time now) {
  std::vector<PlanNode> available;
  available.reserve(candidates.size());
  for (const Candidate& candidate : candidates) {
    available.push_back(nodes_[candidate.node]);
    available.back().in_maintenance = candidate.in_maintenance;
  }
  std::vector<Run> runs = planner_.Plan(available, {}, 0, now);
  // Ids that follow from the seed alone.
  for (Run& run : runs) run.id = absl::StrFormat("run-%012d", next_run_++);
  return runs;
}

void WeftStrategy::Observe(const PlayedRun& played) {
  StoredResult stored;
  stored.probe = played.run.spec.name;
  stored.participants = played.run.participants;
  stored.cohort = played.run.cohort;
  stored.round = played.run.round;
  stored.plan_time = played.run.plan_time;
  stored.in_maintenance = played.run.in_maintenance;
  for (size_t rank = 0; rank < played.results.size(); ++rank) {
    ++stored.id;
    stored.result = played.results[rank];
    if (stored.result.outcome == Outcome::kOk) nodes_[played.nodes[rank]].last_success = played.run.plan_time;
    detector_->Observe(stored);
  }
}

std::vector<Finding> WeftStrategy::Findings() {
  std::vector<Finding> findings = detector_->Findings();
  for (PlanNode& node : nodes_) node.suspect = false;
  for (const Finding& finding : findings) {
    for (const std::string& id : finding.node_ids) nodes_[NodeIndex(id)].suspect = true;
  }
  return findings;
}

absl::Status WeftStrategy::Restart() {
  for (DetectorState& state : detector_->TakeChangedStates()) stored_[state.key] = std::move(state.blob);
  std::vector<DetectorState> states;
  for (const auto& [key, blob] : stored_) states.push_back({key, blob});
  detector_ = std::make_unique<Detector>(DetectorOptions{});
  return detector_->Restore(states);
}

}  // namespace weft::sim
