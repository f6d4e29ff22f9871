// What an agent accepts to run. The bounds are those of proto/weft/v1/probe.proto. Any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "weft/v1/probe.pb.h"

namespace weft {

// A probe may never hold a node longer than this.
inline constexpr absl::Duration kMaxProbeDeadline = absl::Hours(1);
// What rank 0 may offer to the others.
inline constexpr size_t kMaxRendezvousBytes = 4096;

// kUnimplemented for a kind this agent does not know; kInvalidArgument, naming the field and its limit, for
// a parameter out of bounds.
absl::Status ValidateProbeSpec(const v1::ProbeSpec& spec);

// The spec's bounds and those of the run: ranks, rendezvous, 0 < deadline <= kMaxProbeDeadline. A rank above
// 0 needs a rendezvous and rank 0 must have none.
absl::Status ValidateProbeRequest(const v1::ProbeRequest& request);

// File name of the executable for the spec's kind. The list is fixed here: a server names kinds, never
// paths. kUnimplemented for an unknown kind.
absl::StatusOr<std::string> ProbeExecutable(const v1::ProbeSpec& spec);

// The kinds this agent can run, as Hello.probe_kinds says them: those whose executable is in `probe_dir`.
// Which were built depends on what was found when building.
std::vector<std::string> KnownProbeKinds(const std::string& probe_dir);

// True when the probe puts load on a GPU, and so may only run where the GPUs are proven idle. True for kinds
// that this function does not know.
bool UsesGpu(const v1::ProbeSpec& spec);

// kZeroDuration for a malformed or negative one; exact to the nanosecond otherwise.
absl::Duration RequestDeadline(const v1::ProbeRequest& request);

}  // namespace weft
