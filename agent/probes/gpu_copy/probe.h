// The whole of a copy probe.
#pragma once

#include "agent/probes/process/probe_process.h"
#include "weft/v1/probe.pb.h"

namespace weft::gpu_copy {

// `request` is within its bounds. Gives a result in any case, shortly before the request's deadline at the
// latest, and then the process must end without destructors, since a thread of it may hang in the driver:
//   OK         measured, and what arrived is what was sent
//   REFUSED    no driver, no GPU, or nothing to copy between
//   TIMED_OUT  the deadline passed; detail names the copy
//   FAILED     CUDA's errors, wrong data
v1::Result RunProbe(const v1::ProbeRequest& request, const ProbeSinks& sinks);

}  // namespace weft::gpu_copy
