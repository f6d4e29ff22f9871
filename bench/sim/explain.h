// Whether a fault explains a finding. Pure; any thread.
#pragma once

#include <string>

#include "bench/sim/scenario.h"
#include "fleet/finding.h"

namespace weft::sim {

enum class Match {
  kNone,     // the fault does not touch all that the finding names
  kSymptom,  // it does, but the fault is something else: a part of it, or what it is a part of
  kExact,    // the finding names the very part that is at fault
};

// Whatever the time. Failed runs are explained by failing nodes alone, and slow ones never by them.
Match MatchOf(const Finding& finding, const Fault& fault, const Scenario& scenario);

struct Name {
  std::string scope;    // "node", "nic", "rail", "leaf", "pair" or "fleet"
  std::string subject;  // "node-000017", "node-000017/mlx5_3", "leaf-003", "node-000001,node-000002", "fleet"
  bool operator==(const Name&) const = default;
  auto operator<=>(const Name&) const = default;
};

Name NameOf(const Finding& finding);
// The right name for a fault: that of the leaf for its uplinks.
Name RightName(const Fault& fault);

}  // namespace weft::sim
