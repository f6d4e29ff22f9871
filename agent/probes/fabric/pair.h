// Runs both ends of a fabric probe on this machine through the agent's runner, as two agents would. For
// tests and benches. One thread calls; two are used.
#pragma once

#include <array>
#include <string>

#include "absl/time/time.h"
#include "weft/v1/probe.pb.h"

namespace weft::fabric {

struct PairOptions {
  v1::FabricProbe probe;
  // Where each rank's weft-probe-fabric is; a script there may enter a network namespace first.
  std::array<std::string, 2> probe_dirs;
  absl::Duration deadline = absl::Seconds(30);
  std::array<double, 2> link_rates = {0, 0};  // emulated link, bytes per second
};

// By rank. Rank 1 gets UNSPECIFIED when rank 0 ended without a rendezvous.
using PairResults = std::array<v1::Result, 2>;
PairResults RunPair(const PairOptions& options);

}  // namespace weft::fabric
