// What all probe executables do alike: one framed ProbeRequest on descriptor 0, answers on descriptor 3, and
// an end with the agent. One thread calls.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "weft/v1/probe.pb.h"

namespace weft {

// What a probe says while it runs. When nobody reads any more, the process ends within the call.
struct ProbeSinks {
  std::function<void(const std::string& rendezvous)> on_rendezvous;  // rank 0, once
  std::function<void(const char* phase)> on_phase;
};

// The whole of main(): never returns. `run` gets requests of kind `kind` only and is within the bounds that
// the agent checks (ValidateProbeRequest); anything else on descriptor 0 ends the process with exit code 2
// and a line for people. Sets up: the process dies with the agent, dies of signals instead of printing
// stacks, leaves no core files.
[[noreturn]] void ServeProbe(
    const char* name, v1::ProbeSpec::KindCase kind,
    const std::function<v1::Result(const v1::ProbeRequest& request, const ProbeSinks& sinks)>& run);

// When the probe must have answered, in ticks: a little before the agent's patience ends, so that it can say
// itself what happened. Counts from the start of this process, which the agent counts from too.
int64_t ProbeDeadline(const v1::ProbeRequest& request);

}  // namespace weft
