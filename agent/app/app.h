// The agent as a whole: owns its parts, starts them in order and stops them in reverse.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/idle/gpu_watch.h"
#include "agent/idle/idle_proof.h"
#include "agent/runner/reaper.h"
#include "agent/runner/runner.h"
#include "agent/session/agent_session.h"
#include "agent/spool/spool.h"
#include "weft/v1/config.pb.h"

namespace weft {

// A rate in bytes per second from `path`; 0 if `path` is empty. kInvalidArgument when the file holds anything
// but one number above zero, otherwise an errno's code. Any thread.
absl::StatusOr<double> ReadEmulatedRate(const std::string& path);

// Whether certificate, key and authorities of `config` can be read and fit together; names the file.
absl::Status CheckAgentFiles(const v1::AgentConfig& config);

// For the main thread.
class AgentApp {
 public:
  // `config` is checked. Fails when the agent cannot run here, saying why and what to do: state_dir cannot be
  // written or is in use, certificates cannot be read, or the disk is a clone.
  static absl::StatusOr<std::unique_ptr<AgentApp>> Make(const v1::AgentConfig& config);
  void Start();
  // At most a few seconds.
  void Stop();
  const std::string& node_id() const { return node_id_; }

 private:
  AgentApp() = default;

  std::string node_id_;
  std::unique_ptr<Spool> spool_;
  Reaper reaper_;
  std::unique_ptr<ProbeRunner> runner_;
  std::unique_ptr<GpuWatch> gpu_watch_;
  std::unique_ptr<IdleProof> idle_;
  std::unique_ptr<AgentSession> session_;
};

}  // namespace weft
