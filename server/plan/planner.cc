#include "server/plan/planner.h"

#include <algorithm>
#include <tuple>

#include "base/id.h"
#include "server/plan/rounds.h"

namespace weft {

absl::Duration CoverageAge(absl::Time last_success, absl::Time now) {
  return std::max(now - last_success, absl::ZeroDuration());
}

void Planner::SetLastRound(absl::string_view cohort, uint64_t round) {
  uint64_t& last = rounds_[std::string(cohort)];
  last = std::max(last, round);
}

// Rounds keep their beat; one that was missed altogether is not made up for, and a wall clock that was set
// back does not stop them.
bool Planner::RoundIsDue(absl::Time now) {
  if (now < next_round_ && next_round_ - now <= options_.period) return false;
  const absl::Time on_beat = next_round_ + options_.period;
  const bool keeps_beat = on_beat > now && on_beat <= now + options_.period;
  next_round_ = keeps_beat ? on_beat : now + options_.period;
  return true;
}

void Planner::BeginCohortRound(const std::string& cohort, const std::vector<std::string>& sorted_ids) {
  if (sorted_ids.size() < 2) return;
  const uint64_t round = ++rounds_[cohort];
  ++rounds_begun_;
  for (const auto& [first, second] : RoundPairs(sorted_ids.size(), round)) {
    waiting_.push_back({sorted_ids[first], sorted_ids[second], cohort, round});
  }
}

void Planner::BeginRound(const NodeIndex& nodes) {
  dropped_pairs_ += waiting_.size();
  waiting_.clear();
  std::map<std::string, std::vector<std::string>> cohorts;
  for (const auto& [id, node] : nodes) cohorts[node->cohort].push_back(id);
  for (const auto& [cohort, ids] : cohorts) BeginCohortRound(cohort, ids);
}

// Stable, so that pairs of equal urgency keep the order of the round.
void Planner::SortByUrgency(const NodeIndex& nodes) {
  const auto urgency = [&nodes](const WaitingPair& pair) {
    bool suspect = false;
    absl::Time stalest = absl::InfiniteFuture();
    for (const std::string& id : {pair.first, pair.second}) {
      const auto it = nodes.find(id);
      if (it == nodes.end()) continue;
      suspect |= it->second->suspect;
      stalest = std::min(stalest, it->second->last_success);
    }
    return std::make_tuple(!suspect, stalest);
  };
  std::stable_sort(waiting_.begin(), waiting_.end(),
                   [&](const WaitingPair& a, const WaitingPair& b) { return urgency(a) < urgency(b); });
}

Run Planner::MakeRun(const WaitingPair& pair, const NodeIndex& nodes, absl::Time now) const {
  Run run;
  run.id = TimeOrderedUuid(now);
  run.spec = options_.spec;
  run.participants = {pair.first, pair.second};
  run.cohort = pair.cohort;
  run.round = pair.round;
  run.plan_time = now;
  run.in_maintenance = nodes.at(pair.first)->in_maintenance || nodes.at(pair.second)->in_maintenance;
  return run;
}

std::vector<Run> Planner::Plan(const std::vector<PlanNode>& available,
                               const std::set<std::string>& busy_nodes, size_t active_runs, absl::Time now) {
  NodeIndex nodes;
  for (const PlanNode& node : available) nodes[node.id] = &node;
  if (RoundIsDue(now)) BeginRound(nodes);
  std::vector<Run> runs;
  if (waiting_.empty()) return runs;
  SortByUrgency(nodes);
  std::set<std::string> taken;  // by this call; the pairs of one round are disjoint, but rounds may not be
  const auto is_free = [&](const std::string& id) {
    return nodes.count(id) != 0 && busy_nodes.count(id) == 0 && taken.count(id) == 0;
  };
  std::vector<WaitingPair> still_waiting;
  for (WaitingPair& pair : waiting_) {
    if (active_runs + runs.size() >= options_.max_concurrent_runs || !is_free(pair.first) ||
        !is_free(pair.second)) {
      still_waiting.push_back(std::move(pair));
      continue;
    }
    taken.insert({pair.first, pair.second});
    runs.push_back(MakeRun(pair, nodes, now));
  }
  waiting_ = std::move(still_waiting);
  return runs;
}

}  // namespace weft
