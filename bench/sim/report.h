// What weft-sim run writes: docs/SIMULATION.md lists the fields. Any thread.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "bench/sim/scenario.h"
#include "bench/sim/simulation.h"

namespace weft::sim {

// JSON, one line a fault, the same for the same arguments.
std::string ToJson(const Scenario& scenario, absl::string_view strategy, const Played& played,
                   double wall_seconds);

}  // namespace weft::sim
