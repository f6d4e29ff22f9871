// Random scenarios. Pure: the same arguments give the same scenario.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bench/sim/scenario.h"

namespace weft::sim {

struct GenerateOptions {
  size_t nodes = 1024;
  size_t rails = 8;
  size_t leaves = 32;
  size_t days = 7;
  double smallest = 0.05;  // least share of the capacity that a fault takes
};

// Two faults of each kind but one fleet-wide one, with onset from the second day on but for a node that is
// slow from the start; one stack upgrade; one maintenance window for each two days; one restart. No two
// faults on the same NIC at once, except for the fleet-wide one. The options must make sense: leaves that the
// nodes can fill, at least 16 nodes.
Scenario Generate(const GenerateOptions& options, uint64_t seed);

}  // namespace weft::sim
