// The simulated fleet: what each NIC, leaf and path can carry at a time, which nodes a job holds, and what a
// run of a probe measures. Everything follows from the scenario and the seed. Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "bench/sim/jobs.h"
#include "bench/sim/scenario.h"
#include "fleet/probe.h"

namespace weft::sim {

inline constexpr absl::Time kStart = absl::FromUnixSeconds(1'800'000'000);

class World {
 public:
  // `scenario` must outlive it.
  World(const Scenario& scenario, uint64_t seed);

  // Lets jobs and faults come and go; `now` never goes back.
  void AdvanceTo(absl::Time now);
  bool IsBusy(size_t node) const { return jobs_.IsBusy(node); }
  bool IsInMaintenance(size_t node) const;
  // Version of the node's stack: upgrades it has had.
  size_t StackOf(size_t node) const;

  // What the participants report of a run now, by rank; `nodes` are theirs, by rank, two or more, different
  // and not busy. Of a group, the bandwidth is that of its slowest ring neighbours.
  std::vector<Result> Play(const Run& run, const std::vector<size_t>& nodes);

 private:
  double& Nic(size_t node, size_t rail) { return nics_[node * scenario_.rails + rail]; }
  void Weaken(const Fault& fault, absl::Duration time);
  void Slow(size_t node, size_t rail, double left);
  double Capacity(size_t a, size_t b, size_t rail) const;
  double RingCapacity(const std::vector<size_t>& nodes, size_t rail) const;
  Outcome FailureOf(size_t node, bool is_clear) const;
  void FillFailure(const std::vector<size_t>& nodes, std::vector<Result>& results);
  void FillBandwidth(const std::vector<size_t>& nodes, std::vector<Result>& results);
  double Uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }

  const Scenario& scenario_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  Jobs jobs_;
  absl::Duration time_;
  std::vector<double> quality_;  // of NICs that nothing ails; 1 is the reference
  std::vector<double> nics_;     // share of the reference that each NIC carries now
  std::vector<double> uplinks_;  // the same of a NIC's traffic through its leaf's uplinks, by leaf
  double shared_ = 1;            // what all have in common
  std::vector<const Fault*> slow_pairs_;
  std::vector<bool> failing_;
  std::vector<std::string> devices_;
};

}  // namespace weft::sim
