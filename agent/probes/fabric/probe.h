// The whole of one participant's part in a fabric run. One thread.
#pragma once

#include "agent/probes/process/probe_process.h"
#include "weft/v1/probe.pb.h"

namespace weft::fabric {

// `request` is within its bounds (ValidateProbeRequest of the agent). Gives a result in any case, shortly
// before the request's deadline at the latest:
//   OK               measured in this end's direction, data checked
//   PARTNER_MISSING  the peer never came; missing_ranks names it
//   TIMED_OUT        the peer came, then a deadline passed
//   REFUSED          asks for GPU memory, which this build cannot use
//   FAILED           anything else, wrong data too
v1::Result RunProbe(const v1::ProbeRequest& request, const ProbeSinks& sinks);

}  // namespace weft::fabric
