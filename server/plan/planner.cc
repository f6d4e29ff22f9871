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
  if (sorted_ids.size() < std::min<size_t>(options_.group_size, 2)) return;
  const uint64_t round = ++rounds_[cohort];
  ++rounds_begun_;
  for (const std::vector<size_t>& group : RoundGroups(sorted_ids.size(), options_.group_size, round)) {
    WaitingRun& run = waiting_.emplace_back();
    for (const size_t index : group) run.participants.push_back(sorted_ids[index]);
    run.cohort = cohort;
    run.round = round;
  }
}

void Planner::BeginRound(const NodeIndex& nodes) {
  dropped_runs_ += waiting_.size();
  waiting_.clear();
  std::map<std::string, std::vector<std::string>> cohorts;
  for (const auto& [id, node] : nodes) cohorts[node->cohort].push_back(id);
  for (const auto& [cohort, ids] : cohorts) BeginCohortRound(cohort, ids);
}

// Stable, so that runs of equal urgency keep the order of the round.
void Planner::SortByUrgency(const NodeIndex& nodes) {
  const auto urgency = [&nodes](const WaitingRun& run) {
    bool suspect = false;
    absl::Time stalest = absl::InfiniteFuture();
    for (const std::string& id : run.participants) {
      const auto it = nodes.find(id);
      if (it == nodes.end()) continue;
      suspect |= it->second->suspect;
      stalest = std::min(stalest, it->second->last_success);
    }
    return std::make_tuple(!suspect, stalest);
  };
  std::vector<std::tuple<bool, absl::Time, size_t>> order;  // the place last: equals keep theirs
  order.reserve(waiting_.size());
  for (size_t i = 0; i < waiting_.size(); ++i)
    order.push_back(std::tuple_cat(urgency(waiting_[i]), std::tuple(i)));
  std::sort(order.begin(), order.end());
  std::vector<WaitingRun> sorted;
  sorted.reserve(waiting_.size());
  for (const auto& [calm, stalest, place] : order) sorted.push_back(std::move(waiting_[place]));
  waiting_ = std::move(sorted);
}

Run Planner::MakeRun(const WaitingRun& waiting, const NodeIndex& nodes, absl::Time now) const {
  Run run;
  run.id = TimeOrderedUuid(now);
  run.spec = options_.spec;
  run.participants = waiting.participants;
  run.cohort = waiting.cohort;
  run.round = waiting.round;
  run.plan_time = now;
  run.in_maintenance = std::any_of(run.participants.begin(), run.participants.end(),
                                   [&](const std::string& id) { return nodes.at(id)->in_maintenance; });
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
  std::set<std::string> taken;  // by this call; the runs of one round are disjoint, but rounds may not be
  const auto is_free = [&](const std::string& id) {
    return nodes.count(id) != 0 && busy_nodes.count(id) == 0 && taken.count(id) == 0;
  };
  std::vector<WaitingRun> still_waiting;
  for (WaitingRun& waiting : waiting_) {
    const std::vector<std::string>& ids = waiting.participants;
    if (active_runs + runs.size() >= options_.max_concurrent_runs ||
        !std::all_of(ids.begin(), ids.end(), is_free)) {
      still_waiting.push_back(std::move(waiting));
      continue;
    }
    taken.insert(ids.begin(), ids.end());
    runs.push_back(MakeRun(waiting, nodes, now));
  }
  waiting_ = std::move(still_waiting);
  return runs;
}

}  // namespace weft
