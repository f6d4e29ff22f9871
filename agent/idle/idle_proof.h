// Lets GPU probes run only while nobody else uses the node, and ends them when somebody comes.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/idle/gpu_watch.h"
#include "agent/idle/idle.h"
#include "agent/runner/cancel_token.h"
#include "weft/v1/probe.pb.h"

namespace weft {

// Thread-safe; `watch` outlives it. Errors are kUnavailable when the node is busy, and kFailedPrecondition
// when it cannot be proven idle: no GPU, no NVML, a driver that hangs.
class IdleProof {
 public:
  struct Options {
    IdleLimits limits = {};
    std::string root = "";  // below which /sys lies
    Clock* clock = &Clock::Real();
    // Nominal bytes per second of the NICs by name.
    std::function<std::map<std::string, uint64_t>()> nic_rates = {};
    // For readings that a run waits for before it begins.
    absl::Duration patience = absl::Seconds(5);
    std::function<Kinship(pid_t)> kinship = KinshipOf;
  };
  IdleProof(Options options, GpuWatch& watch) : options_(std::move(options)), watch_(watch) {}

  // By the last reading, at most two of the watch's intervals old. Never waits: for a lease. Declines only
  // what is certain by then, a process that still runs; whatever else uses the GPUs is found by Guard::Check.
  absl::Status CheckNow() const;

  // Guards one run, from before its probe is started until that is gone. One thread.
  class Guard {
   public:
    explicit Guard(const IdleProof& proof);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

    // Looks anew at GPUs and NICs: OK when the probe may start. Waits for two readings, or until `cancel`;
    // kCancelled then.
    absl::Status Check(const CancelToken& cancel);
    // From now on a sign of a job, or that the driver no longer answers, cancels `cancel`, which outlives the
    // guard.
    void Begin(CancelToken& cancel);
    // The probe is gone: ends the watch. Makes `result` a YIELDED one if there was such a sign, with how long
    // the probe took to go; its numbers are dropped, as the job was there when they were taken. Otherwise
    // waits, a few seconds at most, until the GPUs are seen idle again.
    void End(v1::Result* result);

   private:
    void Finish();
    void AwaitIdle() const;
    void Watch(CancelToken& cancel);

    const IdleProof& proof_;
    std::thread thread_;
    std::atomic<bool> done_{false};
    // Written by the thread, read once it is joined.
    absl::Status sign_;
    absl::Duration sign_time_;
  };

 private:
  absl::StatusOr<GpuWatch::Reading> AwaitTwo(const CancelToken& cancel) const;

  const Options options_;
  GpuWatch& watch_;
};

}  // namespace weft
