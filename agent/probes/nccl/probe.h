// The whole of one participant's part in an NCCL run.
#pragma once

#include "agent/probes/process/probe_process.h"
#include "weft/v1/probe.pb.h"

namespace weft::nccl {

// `request` is within its bounds (ValidateProbeRequest of the agent). Gives a result in any case, shortly
// before the request's deadline at the latest, and then the process must end without destructors, since a
// thread of it may hang in a driver:
//   OK               measured, data checked
//   REFUSED          this node cannot run such a probe: no GPU, no NCCL, one that is too old
//   PARTNER_MISSING  somebody never came to the rendezvous; missing_ranks names them
//   TIMED_OUT        all came, then a deadline passed; missing_ranks names who fell silent or never entered a
//   step FAILED           anything else: NCCL's and CUDA's errors, wrong data, a participant whose process
//   ended
// Redirects stdout and sets NCCL_* in this process's environment.
v1::Result RunProbe(const v1::ProbeRequest& request, const ProbeSinks& sinks);

}  // namespace weft::nccl
