// Group bisection: groups of about the square root of the nodes; a slow group is halved until one node is
// left, which is confirmed with a known-good one. When both halves pass, they are mixed across the boundary
// once; two nodes that are slow only with each other are a slow pair.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "bench/sim/floor_strategy.h"

namespace weft::sim {

class GroupBisection : public FloorStrategy {
 public:
  GroupBisection(const Scenario& scenario, uint64_t seed) : FloorStrategy(scenario, seed) {}

 private:
  // A slow group whose halves are being tested.
  struct Split {
    std::vector<size_t> first, second;
    size_t tested = 0;
    bool any_slow = false;
    bool is_mix = false;
  };
  struct Test {
    std::vector<size_t> nodes;  // without the known-good one that may have been added
    size_t split = kAll;        // that it is a half of
  };

  void BeginRound(const std::vector<size_t>& nodes) override;
  void NextStage() override;
  void Judge(const std::vector<size_t>& nodes, const Verdict& verdict) override;
  void JudgeSlow(const Test& test, const Verdict& verdict);
  void FinishHalf(size_t split, bool passed);
  void Halve(const std::vector<size_t>& nodes, bool is_mix);
  void AddTest(Test test);

  std::vector<Test> next_;                       // to run when the present stage is done
  std::map<std::vector<size_t>, Test> running_;  // by participants
  std::vector<Split> splits_;
  std::vector<size_t> good_;  // passed in this round
  size_t next_good_ = 0;
};

}  // namespace weft::sim
