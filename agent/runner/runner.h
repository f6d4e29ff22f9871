// Runs one probe as a child process. A sick driver hangs or kills the child, never the caller.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/runner/cancel_token.h"
#include "agent/runner/reaper.h"
#include "base/clock.h"
#include "weft/v1/probe.pb.h"

namespace weft {

// Thread-safe: several threads may each run a probe.
class ProbeRunner {
 public:
  struct Options {
    // Folder of the probe executables, absolute.
    std::string probe_dir;
    // For start times and deadlines; a real one, since processes do not follow a simulated one.
    Clock* clock = &Clock::Real();
    // More environment for probes as NAME=value, e.g. the site's FI_* and NCCL_* settings. Nothing is
    // inherited from the agent.
    std::vector<std::string> environment = {};
    // Between SIGTERM and SIGKILL.
    absl::Duration grace = absl::Milliseconds(200);
    // How long a probe may take to exit once it has answered.
    absl::Duration exit_patience = absl::Seconds(2);
  };

  // `reaper` owns all children of this process and outlives the runner. Reaper::BecomeSubreaper was called.
  ProbeRunner(Options options, Reaper& reaper);

  // What it can run: see KnownProbeKinds.
  std::vector<std::string> Kinds() const;

  // Blocks until the probe and all its descendants are gone: at most the request's deadline, the grace and
  // about two seconds more. `on_rendezvous` is called on this thread, at most once, as soon as rank 0's probe
  // offers one. Never fails as a call; what went wrong is in the result:
  //   REFUSED    the request is out of bounds, of an unknown kind, or of one whose executable is not
  //   installed TIMED_OUT  the deadline passed; `phase` says where FAILED     could not start, died, broke
  //   its protocol, left no result, or was cancelled
  // or whatever outcome the probe itself found. Sets run_id, rank, start_time, elapsed and tool_output; the
  // caller sets node_id.
  v1::Result Run(const v1::ProbeRequest& request, const std::function<void(std::string)>& on_rendezvous,
                 const CancelToken& cancel);

 private:
  v1::Result Execute(const v1::ProbeRequest& request, const std::function<void(std::string)>& on_rendezvous,
                     const CancelToken& cancel);
  std::vector<std::string> Environment() const;

  const Options options_;
  Reaper& reaper_;
};

}  // namespace weft
