// Runs a strategy through a scenario on a virtual clock. Used by one thread.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "bench/sim/scenario.h"
#include "bench/sim/scorer.h"
#include "bench/sim/strategy.h"

namespace weft::sim {

struct Played {
  Score score;
  uint64_t probes = 0;    // runs that took place
  uint64_t declined = 0;  // runs that a busy node declined
  uint64_t rounds = 0;
  absl::Duration probe_time;  // of all participants together
};

// The same scenario, seed and kind of strategy give the same outcome. Errors are those of
// Strategy::Restart.
absl::StatusOr<Played> Simulate(const Scenario& scenario, uint64_t seed, Strategy& strategy);

}  // namespace weft::sim
