// Round robin with a fixed floor: each round pairs the nodes by the circle method; a run below the floor
// condemns both ends, a run above it clears both.
#pragma once

#include <vector>

#include "bench/sim/floor_strategy.h"
#include "server/plan/rounds.h"

namespace weft::sim {

class FixedFloor : public FloorStrategy {
 public:
  explicit FixedFloor(const Scenario& scenario) : FloorStrategy(scenario) {}

 private:
  void BeginRound(const std::vector<size_t>& nodes) override {
    for (const auto& [a, b] : RoundPairs(nodes.size(), ++round_)) Enqueue({nodes[a], nodes[b]});
  }
  void Judge(const std::vector<size_t>& nodes, const Verdict& verdict) override {
    for (const size_t node : nodes) {
      if (verdict.passed()) {
        Clear(node);
      } else {
        Blame(node, verdict);
      }
    }
  }

  uint64_t round_ = 0;
};

}  // namespace weft::sim
