// A fleet for tests: real planner and run tracker, links with noise and dips, results that are late, lost or
// out of order. Everything follows from the seed. Used by one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "fleet/probe.h"
#include "server/plan/planner.h"
#include "server/plan/run_tracker.h"

namespace weft {

struct SimulatedFleetOptions {
  size_t nodes = 8;
  uint64_t seed = 1;
  double bandwidth = 125e6;  // bytes per second of a healthy link
  double noise = 0.02;       // standard deviation of each measured value, relative
  double dip_rate = 0;       // share of runs that are slow for once
  double least_dip = 0.1;    // depth of a dip
  double deepest_dip = 0.4;
  double lost_rate = 0;  // share of results that never arrive
  double late_rate = 0;  // share of results that arrive one to five rounds later, newest first
};

class SimulatedFleet {
 public:
  // What became of a run.
  struct Played {
    Run run;
    bool has_dip = false;
    bool is_whole = true;  // both results arrived in their round
  };

  explicit SimulatedFleet(SimulatedFleetOptions options);

  std::string id(size_t node) const;
  // Share of its healthy bandwidth that a node's link has, from now on.
  void SetHealth(size_t node, double health) { health_[node] = health; }
  double health(size_t node) const { return health_[node]; }
  // A pair's path, below the links of its ends.
  void SetPath(size_t a, size_t b, double health) { paths_[{std::min(a, b), std::max(a, b)}] = health; }
  // A failing node's runs all fail.
  void SetFailing(size_t node, bool failing) { failing_[node] = failing; }
  void SetStack(size_t node, std::string stack) { stacks_[node] = std::move(stack); }
  void SetMaintenance(size_t node, bool on) { maintenance_[node] = on; }

  // Plays one round; each result that arrives in it goes to `observe`. With `mid_round`, it is called when
  // all runs are half done: what it changes shows by half in them.
  std::vector<Played> PlayRound(const std::function<void(const StoredResult&)>& observe,
                                const std::function<void()>& mid_round = nullptr);
  absl::Time now() const { return now_; }
  uint64_t round() const { return round_; }

 private:
  struct Late {
    uint64_t due_round;
    StoredResult result;
  };

  double Capacity(size_t a, size_t b) const;
  double Normal() { return std::normal_distribution<double>(0, 1)(random_); }
  bool Chance(double p) { return std::uniform_real_distribution<double>(0, 1)(random_) < p; }
  size_t IndexOf(const std::string& id) const { return index_.at(id); }
  std::vector<Run> PlanRound();
  StoredResult MakeResult(const Run& run, uint32_t rank, double capacity);
  void FinishRun(const Run& run);

  const SimulatedFleetOptions options_;
  std::mt19937_64 random_;
  std::vector<double> health_;
  std::vector<bool> failing_;
  std::vector<bool> maintenance_;
  std::vector<std::string> stacks_;
  std::map<std::pair<size_t, size_t>, double> paths_;
  std::map<std::string, size_t> index_;
  Planner planner_;
  RunTracker tracker_{RunTrackerOptions{}};
  std::vector<Late> late_;
  absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
  uint64_t round_ = 0;
  int64_t next_result_ = 1;
};

}  // namespace weft
