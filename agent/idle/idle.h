// When a node's GPUs are free for a probe. Pure; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/runner/process_tree.h"
#include "fleet/transport.h"
#include "weft/v1/gpu_reader.pb.h"
#include "weft/v1/probe.pb.h"

namespace weft {

struct IdleLimits {
  uint32_t gpu_utilization_percent = 5;
  // Memory in use on a GPU without a process that could be named: jobs in another PID namespace, MPS.
  uint64_t gpu_memory_bytes = 2ull << 30;
  // Bytes per second of a NIC in either direction: the greater of a number and a share of its nominal rate.
  uint64_t nic_bytes_per_second = 50'000'000;
  double nic_share = 0.02;
};

// kUnavailable naming GPU and cause when somebody uses a GPU (the node is busy); kFailedPrecondition when the
// driver does not say who does (the node cannot be proven idle). `kinship` tells own processes from others.
absl::Status CheckGpusIdle(const v1::GpuActivity& activity, const IdleLimits& limits,
                           const std::function<Kinship(pid_t)>& kinship);

// kUnavailable naming the busiest NIC above its limit. `rates`: nominal bytes per second by name; 0 or
// absent: unknown.
absl::Status CheckNicsIdle(const std::vector<NicTraffic>& traffic, absl::Duration during,
                           const std::map<std::string, uint64_t>& rates, const IdleLimits& limits);

// How a probe that may not run for `why` is declined: SKIPPED_BUSY for kUnavailable, FAILED for kCancelled,
// else REFUSED.
v1::Outcome OutcomeOfDecline(const absl::Status& why);

// Looks for signs of a job while a probe of ours runs: then utilisation, memory and NICs are the probe's, and
// only processes tell. One thread.
class JobWatch {
 public:
  // Takes one reading. kUnavailable, naming GPU and process, at a sign of a job. A process that has just
  // ended is none, nor is one of ours that has; one that cannot be seen in two readings running is, since it
  // lives in another PID namespace. kFailedPrecondition when the driver no longer says who uses the GPUs.
  absl::Status Look(const v1::GpuActivity& activity, const std::function<Kinship(pid_t)>& kinship);

 private:
  std::set<pid_t> own_;  // seen at any time
  std::vector<pid_t> unseen_;
};

}  // namespace weft
