// A way to decide who probes whom and what is at fault. Used by one thread.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "bench/sim/scenario.h"
#include "fleet/finding.h"
#include "fleet/probe.h"

namespace weft::sim {

// A node that may be asked for a run.
struct Candidate {
  size_t node = 0;
  bool in_maintenance = false;
};

// A run that took place.
struct PlayedRun {
  Run run;
  std::vector<size_t> nodes;    // by rank
  std::vector<Result> results;  // by rank
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  // Runs to begin now, at most the scenario's concurrent ones, on different nodes; only participants,
  // in_maintenance and what the strategy itself needs are set. Called when a round begins and again each time
  // when the runs before have ended, until it gives none. A busy node declines: its run never takes place.
  virtual std::vector<Run> Plan(const std::vector<Candidate>& candidates, bool begins_round,
                                absl::Time now) = 0;
  virtual void Observe(const PlayedRun& played) = 0;
  // All that is believed now.
  virtual std::vector<Finding> Findings() = 0;
  // Whether the candidates are idle nodes alone; else some will decline.
  virtual bool KnowsBusy() const = 0;
  // The program is stopped and started again.
  virtual absl::Status Restart() { return absl::OkStatus(); }
};

// "weft", "two-pass", "rotating-partner", "fixed-floor" and "group-bisection"; kInvalidArgument for others.
// `scenario` must outlive it.
absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(absl::string_view name, const Scenario& scenario,
                                                       uint64_t seed);
// Their names.
const std::vector<std::string>& StrategyNames();

// The index behind NodeId().
size_t NodeIndex(absl::string_view id);

}  // namespace weft::sim
