// What the published strategies have in common: a fixed floor, 85% of what a NIC should carry, below which a
// run is slow; verdicts that the next test of the node replaces; a queue of runs. Used by one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/sim/strategy.h"

namespace weft::sim {

using Rails = std::set<size_t>;

class FloorStrategy : public Strategy {
 public:
  explicit FloorStrategy(const Scenario& scenario, uint64_t seed = 0) : scenario_(scenario), random_(seed) {}

  std::vector<Run> Plan(const std::vector<Candidate>& candidates, bool begins_round, absl::Time now) override;
  void Observe(const PlayedRun& played) override;
  std::vector<Finding> Findings() override;
  // They are run by whoever places jobs.
  bool KnowsBusy() const override { return true; }

 protected:
  // What a run showed.
  struct Verdict {
    bool failed = false;
    Rails slow;  // below the floor; all of them if the run failed
    bool passed() const { return slow.empty(); }
  };

  // Queues the runs of a round of these nodes.
  virtual void BeginRound(const std::vector<size_t>& nodes) = 0;
  virtual void Judge(const std::vector<size_t>& nodes, const Verdict& verdict) = 0;
  // Queues what follows once all that was queued is done; may queue nothing.
  virtual void NextStage() {}

  void Enqueue(std::vector<size_t> nodes) { queue_.push_back(std::move(nodes)); }
  void EnqueuePairs(const std::vector<size_t>& shuffled);
  std::vector<size_t> Shuffled(std::vector<size_t> nodes);
  void Blame(size_t node, const Verdict& verdict) { blamed_[node] = verdict; }
  void Clear(size_t node) { blamed_.erase(node); }
  void BlamePair(size_t a, size_t b) { blamed_pairs_.insert(std::minmax(a, b)); }
  void ClearPair(size_t a, size_t b) { blamed_pairs_.erase(std::minmax(a, b)); }

  const Scenario& scenario_;
  std::mt19937_64 random_;

 private:
  Verdict VerdictOf(const PlayedRun& played) const;

  std::deque<std::vector<size_t>> queue_;
  std::map<size_t, Verdict> blamed_;
  std::set<std::pair<size_t, size_t>> blamed_pairs_;
};

}  // namespace weft::sim
