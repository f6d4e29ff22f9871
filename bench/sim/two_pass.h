// Two passes with known-good partners: first random pairs; then each end of a slow pair once more, with a
// node that passed. Who is slow again is bad.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/sim/floor_strategy.h"

namespace weft::sim {

class TwoPass : public FloorStrategy {
 public:
  TwoPass(const Scenario& scenario, uint64_t seed) : FloorStrategy(scenario, seed) {}

 private:
  void BeginRound(const std::vector<size_t>& nodes) override {
    is_first_pass_ = true;
    passed_.clear();
    suspects_.clear();
    EnqueuePairs(Shuffled(nodes));
  }
  void NextStage() override {
    if (!is_first_pass_ || passed_.empty()) return;
    is_first_pass_ = false;
    for (size_t i = 0; i < suspects_.size(); ++i) Enqueue({suspects_[i], passed_[i % passed_.size()]});
  }
  void Judge(const std::vector<size_t>& nodes, const Verdict& verdict) override {
    if (is_first_pass_) {
      std::vector<size_t>& list = verdict.passed() ? passed_ : suspects_;
      list.insert(list.end(), nodes.begin(), nodes.end());
      if (!verdict.passed()) return;
      for (const size_t node : nodes) Clear(node);
    } else if (verdict.passed()) {
      Clear(nodes[0]);
    } else {
      Blame(nodes[0], verdict);
    }
  }

  bool is_first_pass_ = true;
  std::vector<size_t> passed_;    // in the first pass
  std::vector<size_t> suspects_;  // of the first pass
};

}  // namespace weft::sim
