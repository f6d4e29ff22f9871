#include "server/detect/simulated_fleet.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_format.h"

namespace weft {
namespace {

constexpr absl::Duration kPeriod = absl::Seconds(10);
constexpr absl::Duration kDeadline = absl::Seconds(60);

PlannerOptions PlanOf() {
  PlannerOptions options;
  options.spec.name = "fabric_write";
  options.period = kPeriod;
  options.max_concurrent_runs = 1000;
  return options;
}

}  // namespace

SimulatedFleet::SimulatedFleet(SimulatedFleetOptions options)
    : options_(options),
      random_(options.seed),
      health_(options.nodes, 1),
      failing_(options.nodes),
      maintenance_(options.nodes),
      stacks_(options.nodes, "stack-1"),
      planner_(PlanOf()) {
  for (size_t i = 0; i < options.nodes; ++i) index_[id(i)] = i;
}

std::string SimulatedFleet::id(size_t node) const { return absl::StrFormat("node-%05d", node); }

double SimulatedFleet::Capacity(size_t a, size_t b) const {
  const auto path = paths_.find({std::min(a, b), std::max(a, b)});
  return std::min({health_[a], health_[b], path == paths_.end() ? 1.0 : path->second});
}

std::vector<Run> SimulatedFleet::PlanRound() {
  std::vector<PlanNode> nodes(options_.nodes);
  for (size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].id = id(i);
    nodes[i].in_maintenance = maintenance_[i];
  }
  return planner_.Plan(nodes, tracker_.BusyNodes(), tracker_.active_runs(), now_);
}

StoredResult SimulatedFleet::MakeResult(const Run& run, uint32_t rank, double capacity) {
  StoredResult stored;
  stored.id = next_result_++;
  stored.probe = run.spec.name;
  stored.participants = run.participants;
  stored.cohort = run.cohort;
  stored.round = run.round;
  stored.plan_time = run.plan_time;
  stored.in_maintenance = run.in_maintenance;
  Result& result = stored.result;
  result.run_id = run.id;
  result.node_id = run.participants[rank];
  result.rank = rank;
  result.provider = "tcp;ofi_rxm";
  result.stack_fingerprint = stacks_[IndexOf(result.node_id)];
  if (failing_[IndexOf(run.participants[0])] || failing_[IndexOf(run.participants[1])]) {
    result.outcome = Outcome::kTimedOut;
    return stored;
  }
  result.outcome = Outcome::kOk;
  Measurement measurement;
  measurement.device = "eth0";
  measurement.message_size_bytes = 1 << 20;
  measurement.value = std::max(0.0, options_.bandwidth * capacity * (1 + options_.noise * Normal()));
  result.measurements = {measurement};
  return stored;
}

// The tracker has to end each run that the planner begins, else the nodes would stay busy.
void SimulatedFleet::FinishRun(const Run& run) {
  tracker_.Begin(run, kDeadline, now_);
  for (const std::string& node : run.participants) {
    tracker_.OnLeaseReply(node, run.id, true, Outcome::kOk, "", now_);
  }
  tracker_.OnRendezvous(run.participants[0], run.id, "address", now_);
  size_t finished = 0;
  for (const std::string& node : run.participants) {
    finished += tracker_.OnResult(node, run.id, Outcome::kOk, "", now_).finished.size();
  }
  if (finished != 1) std::abort();
}

std::vector<SimulatedFleet::Played> SimulatedFleet::PlayRound(
    const std::function<void(const StoredResult&)>& observe, const std::function<void()>& mid_round) {
  ++round_;
  const std::vector<Run> runs = PlanRound();
  const auto capacity_of = [&](const Run& run) {
    return Capacity(IndexOf(run.participants[0]), IndexOf(run.participants[1]));
  };
  std::vector<double> capacities;
  for (const Run& run : runs) capacities.push_back(capacity_of(run));
  if (mid_round) {
    mid_round();
    // Half of the time at each level: the mean over time is what a run measures.
    for (size_t i = 0; i < runs.size(); ++i) capacities[i] = (capacities[i] + capacity_of(runs[i])) / 2;
  }
  std::vector<Played> played;
  std::vector<StoredResult> arriving;
  for (size_t i = 0; i < runs.size(); ++i) {
    FinishRun(runs[i]);
    Played one{runs[i]};
    one.has_dip = Chance(options_.dip_rate);
    std::uniform_real_distribution<double> depth(options_.least_dip, options_.deepest_dip);
    const double capacity = capacities[i] * (one.has_dip ? 1 - depth(random_) : 1);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      StoredResult result = MakeResult(runs[i], rank, capacity);
      if (Chance(options_.lost_rate)) {
        one.is_whole = false;
      } else if (Chance(options_.late_rate)) {
        one.is_whole = false;
        late_.push_back({round_ + 1 + random_() % 5, std::move(result)});
      } else {
        arriving.push_back(std::move(result));
      }
    }
    played.push_back(std::move(one));
  }
  std::shuffle(arriving.begin(), arriving.end(), random_);
  std::sort(late_.begin(), late_.end(), [](const Late& a, const Late& b) {
    return std::make_pair(a.result.plan_time, a.result.id) > std::make_pair(b.result.plan_time, b.result.id);
  });
  for (auto it = late_.begin(); it != late_.end();) {
    if (it->due_round > round_) {
      ++it;
      continue;
    }
    arriving.push_back(std::move(it->result));
    it = late_.erase(it);
  }
  for (const StoredResult& result : arriving) observe(result);
  now_ += kPeriod;
  return played;
}

}  // namespace weft
