#include "bench/sim/world.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace weft::sim {
namespace {

constexpr uint64_t kMessageSize = uint64_t{1} << 30;
constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr double kTwoPi = 6.283185307179586;
// Both ends time the same bytes: what they report differs by this share of the noise of a run.
constexpr double kNoiseBetweenEnds = 0.2;
// Half of the runs with a failing node say who failed; of the others both ends only report that they waited.
constexpr double kClearFailures = 0.5;

}  // namespace

World::World(const Scenario& scenario, uint64_t seed)
    : scenario_(scenario),
      random_(seed),
      jobs_(scenario.nodes, scenario.busy_share, scenario.job_time, seed + 1),
      quality_(scenario.nodes * scenario.rails) {
  for (double& quality : quality_) quality = std::max(0.5, 1 + scenario.node_spread * normal_(random_));
  for (size_t rail = 0; rail < scenario.rails; ++rail) devices_.push_back(NicName(rail));
}

bool World::IsInMaintenance(size_t node) const {
  return std::any_of(
      scenario_.maintenance.begin(), scenario_.maintenance.end(),
      [&](const Maintenance& work) { return work.Covers(node) && time_ >= work.start && time_ < work.end; });
}

size_t World::StackOf(size_t node) const {
  const double place = static_cast<double>(node) / static_cast<double>(scenario_.nodes);
  return static_cast<size_t>(
      std::count_if(scenario_.stack_upgrades.begin(), scenario_.stack_upgrades.end(),
                    [&](const StackUpgrade& upgrade) { return time_ >= upgrade.at + place * upgrade.over; }));
}

void World::Slow(size_t node, size_t rail, double left) {
  if (rail != kAll) {
    Nic(node, rail) *= left;
    return;
  }
  for (size_t r = 0; r < scenario_.rails; ++r) Nic(node, r) *= left;
}

void World::Weaken(const Fault& fault, absl::Duration time) {
  const double left = fault.Left(time);
  switch (fault.kind) {
    case FaultKind::kNode:
    case FaultKind::kNic:
    case FaultKind::kDrift:
    case FaultKind::kFlapping:
    case FaultKind::kTransient:
      return Slow(fault.node, fault.rail, left);
    case FaultKind::kLeaf:
      for (size_t node = 0; node < scenario_.nodes; ++node) {
        for (size_t rail = 0; rail < scenario_.rails; ++rail) {
          if (scenario_.LeafOf(node, rail) == fault.leaf) Slow(node, rail, left);
        }
      }
      return;
    case FaultKind::kUplink:
      uplinks_[fault.leaf] *= left;
      return;
    case FaultKind::kPair:
      slow_pairs_.push_back(&fault);
      return;
    case FaultKind::kFleet:
      shared_ *= left;
      return;
    case FaultKind::kFailing:
      failing_[fault.node] = true;
  }
}

void World::AdvanceTo(absl::Time now) {
  time_ = now - kStart;
  jobs_.AdvanceTo(time_);
  nics_ = quality_;
  uplinks_.assign(scenario_.leaves, 1);
  failing_.assign(scenario_.nodes, false);
  slow_pairs_.clear();
  const double day = absl::FDivDuration(time_, absl::Hours(24));
  shared_ = 1 - scenario_.daily_swing * (1 - std::cos(kTwoPi * day)) / 2;
  for (const Fault& fault : scenario_.faults) {
    if (fault.IsActive(time_)) Weaken(fault, time_);
  }
  for (const Maintenance& work : scenario_.maintenance) {
    if (time_ < work.start || time_ >= work.work_end) continue;
    for (size_t i = 0; i < work.nodes; ++i) Slow(work.first_node + i, kAll, 1 - work.size);
  }
  if (scenario_.stack_upgrades.empty() || time_ < scenario_.stack_upgrades.front().at) return;
  for (size_t node = 0; node < scenario_.nodes; ++node) {
    const size_t upgrades = StackOf(node);
    for (size_t i = 0; i < upgrades; ++i) Slow(node, kAll, 1 + scenario_.stack_upgrades[i].change);
  }
}

double World::Capacity(size_t a, size_t b, size_t rail) const {
  double capacity = std::min(nics_[a * scenario_.rails + rail], nics_[b * scenario_.rails + rail]);
  const size_t leaf_a = scenario_.LeafOf(a, rail);
  const size_t leaf_b = scenario_.LeafOf(b, rail);
  if (leaf_a != leaf_b) capacity = std::min({capacity, uplinks_[leaf_a], uplinks_[leaf_b]});
  for (const Fault* fault : slow_pairs_) {
    const bool is_pair = (fault->node == a && fault->peer == b) || (fault->node == b && fault->peer == a);
    if (is_pair && (fault->rail == kAll || fault->rail == rail))
      capacity = std::min(capacity, fault->Left(time_));
  }
  return capacity;
}

double World::RingCapacity(const std::vector<size_t>& nodes, size_t rail) const {
  double capacity = nodes.size() == 2 ? kNoLimit : Capacity(nodes.front(), nodes.back(), rail);
  for (size_t i = 0; i + 1 < nodes.size(); ++i)
    capacity = std::min(capacity, Capacity(nodes[i], nodes[i + 1], rail));
  return capacity;
}

Outcome World::FailureOf(size_t node, bool is_clear) const {
  if (!is_clear) return Outcome::kTimedOut;
  return failing_[node] ? Outcome::kFailed : Outcome::kPartnerMissing;
}

void World::FillFailure(const std::vector<size_t>& nodes, std::vector<Result>& results) {
  const bool is_clear = Uniform(0, 1) < kClearFailures;
  for (size_t i = 0; i < nodes.size(); ++i) results[i].outcome = FailureOf(nodes[i], is_clear);
}

void World::FillBandwidth(const std::vector<size_t>& nodes, std::vector<Result>& results) {
  const bool has_dip = Uniform(0, 1) < scenario_.dip_rate;
  const double dip = has_dip ? Uniform(scenario_.least_dip, scenario_.deepest_dip) : 0;
  const bool dips_everywhere = has_dip && random_() % 2 == 0;
  const size_t dip_rail = has_dip ? random_() % scenario_.rails : 0;
  for (Result& result : results) {
    result.outcome = Outcome::kOk;
    result.measurements.resize(scenario_.rails);
  }
  for (size_t rail = 0; rail < scenario_.rails; ++rail) {
    double level =
        scenario_.bandwidth * shared_ * RingCapacity(nodes, rail) * (1 + scenario_.noise * normal_(random_));
    if (has_dip && (dips_everywhere || rail == dip_rail)) level *= 1 - dip;
    for (Result& result : results) {
      Measurement& measurement = result.measurements[rail];
      measurement.device = devices_[rail];
      measurement.message_size_bytes = kMessageSize;
      measurement.value = std::max(0.0, level * (1 + kNoiseBetweenEnds * scenario_.noise * normal_(random_)));
    }
  }
}

std::vector<Result> World::Play(const Run& run, const std::vector<size_t>& nodes) {
  std::vector<Result> results(nodes.size());
  for (size_t rank = 0; rank < nodes.size(); ++rank) {
    Result& result = results[rank];
    result.run_id = run.id;
    result.node_id = run.participants[rank];
    result.rank = static_cast<uint32_t>(rank);
    result.provider = "efa";
    result.stack_fingerprint = absl::StrCat("stack-", StackOf(nodes[rank]));
    result.elapsed = scenario_.run_time;
  }
  const bool fails = std::any_of(nodes.begin(), nodes.end(), [this](size_t node) { return failing_[node]; });
  if (fails) {
    FillFailure(nodes, results);
  } else {
    FillBandwidth(nodes, results);
  }
  return results;
}

}  // namespace weft::sim
