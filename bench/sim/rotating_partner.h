// Rotating partner: who fails is remembered with the partner; who fails again on the same rail with another
// partner is bad. A pass forgets.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

#include "bench/sim/floor_strategy.h"

namespace weft::sim {

class RotatingPartner : public FloorStrategy {
 public:
  RotatingPartner(const Scenario& scenario, uint64_t seed) : FloorStrategy(scenario, seed) {}

 private:
  struct Failure {
    size_t partner;
    Rails rails;
  };

  void BeginRound(const std::vector<size_t>& nodes) override { EnqueuePairs(Shuffled(nodes)); }
  void Judge(const std::vector<size_t>& nodes, const Verdict& verdict) override {
    JudgeOne(nodes[0], nodes[1], verdict);
    JudgeOne(nodes[1], nodes[0], verdict);
  }
  void JudgeOne(size_t node, size_t partner, const Verdict& verdict) {
    if (verdict.passed()) {
      failures_.erase(node);
      return Clear(node);
    }
    const auto before = failures_.find(node);
    if (before != failures_.end() && before->second.partner != partner) {
      Verdict both;
      both.failed = verdict.failed;
      std::set_intersection(before->second.rails.begin(), before->second.rails.end(), verdict.slow.begin(),
                            verdict.slow.end(), std::inserter(both.slow, both.slow.end()));
      if (!both.passed()) Blame(node, both);
    }
    failures_[node] = {partner, verdict.slow};
  }

  std::map<size_t, Failure> failures_;
};

}  // namespace weft::sim
