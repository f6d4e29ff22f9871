// Weft itself: the server's planner and detector. Used by one thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/sim/strategy.h"
#include "server/detect/detector.h"
#include "server/plan/planner.h"

namespace weft::sim {

class WeftStrategy : public Strategy {
 public:
  explicit WeftStrategy(const Scenario& scenario);

  std::vector<Run> Plan(const std::vector<Candidate>& candidates, bool begins_round, absl::Time now) override;
  void Observe(const PlayedRun& played) override;
  std::vector<Finding> Findings() override;
  bool KnowsBusy() const override { return knows_busy_; }
  absl::Status Restart() override;

 private:
  const bool knows_busy_;
  std::map<std::string, std::string> stored_;  // the detector's memory, by key
  std::unique_ptr<Detector> detector_;
  Planner planner_;
  std::vector<PlanNode> nodes_;  // all, by index, with what is known of each
  uint64_t next_run_ = 0;
};

}  // namespace weft::sim
