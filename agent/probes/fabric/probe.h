// The whole of one participant's part in a fabric run. One thread.
#pragma once

#include <functional>
#include <string>

#include "weft/v1/probe.pb.h"

namespace weft::fabric {

// What the probe says while it runs.
struct ProbeSinks {
  std::function<void(const std::string& rendezvous)> on_rendezvous;  // rank 0, once
  std::function<void(const char* phase)> on_phase;
};

// `request` is within its bounds (ValidateProbeRequest of the agent). Gives a result in any case, shortly
// before the request's deadline at the latest:
//   OK               measured in this end's direction, data checked
//   PARTNER_MISSING  the peer never came; missing_ranks names it
//   TIMED_OUT        the peer came, then a deadline passed
//   FAILED           anything else, wrong data too
v1::Result RunProbe(const v1::ProbeRequest& request, const ProbeSinks& sinks);

}  // namespace weft::fabric
