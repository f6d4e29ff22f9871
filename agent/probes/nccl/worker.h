// The thread that talks to GPUs and NCCL, which may hang, and the mailbox between it and the thread that must
// not.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "agent/probes/nccl/device_ranks.h"
#include "agent/probes/nccl/parameters.h"
#include "base/mutex.h"
#include "weft/v1/probe.pb.h"

namespace weft::nccl {

// What the worker has to say.
struct WorkerEvent {
  enum class Kind { kOpened, kEntered, kDone, kClosed, kFailed };
  Kind kind = Kind::kFailed;
  absl::Status status = {};                    // kFailed
  std::vector<std::string> unique_ids = {};    // kOpened, where asked for
  std::vector<uint64_t> rank_ns = {};          // kDone
  std::vector<v1::NcclSetting> settings = {};  // kOpened
};

// All calls from one thread, never blocking but for Finish. Requests are done in order, one at a time.
class GpuWorker {
 public:
  explicit GpuWorker(const Parameters& parameters);
  // Never destroyed: freeing GPU memory waits for the GPU, and the process ends anyway.
  ~GpuWorker() = delete;

  // Answered by kOpened (then ranks() is there) or kFailed. `own_settings` as EffectiveSettings takes them.
  void Open(bool make_unique_ids, std::vector<std::string> own_settings);
  // kDone or kFailed.
  void Connect(Ranks ranks, std::vector<std::string> unique_ids);
  // kEntered, then kDone; or kFailed.
  void Run(const Step& step, uint32_t iterations);
  // kClosed or kFailed.
  void Close();

  // Readable when TakeEvents has something.
  int event_fd() const { return event_fd_; }
  std::vector<WorkerEvent> TakeEvents() WEFT_EXCLUDES(mutex_);

  // Null before kOpened. What it says of GPUs, NCCL and bytes may be read while no request is under way.
  DeviceRanks* ranks() const { return ranks_.load(); }

  // Stops what is under way, aborts all communicators, and ends the thread, within about `patience_ticks`.
  // False when the thread or an abort hangs: then the process must end without destroying this.
  bool Finish(int64_t patience_ticks);

 private:
  void Post(std::function<void()> request) WEFT_EXCLUDES(mutex_);
  void Say(WorkerEvent event) WEFT_EXCLUDES(mutex_);
  void Loop();
  bool WaitUntilIdle(int64_t give_up);

  const Parameters parameters_;
  const int event_fd_;
  std::atomic<bool> stop_{false};
  std::unique_ptr<DeviceRanks> owned_ranks_;  // the worker's
  std::atomic<DeviceRanks*> ranks_{nullptr};

  Mutex mutex_;
  CondVar changed_;
  std::vector<std::function<void()>> requests_ WEFT_GUARDED_BY(mutex_);
  std::vector<WorkerEvent> events_ WEFT_GUARDED_BY(mutex_);
  bool quit_ WEFT_GUARDED_BY(mutex_) = false;
  bool ended_ WEFT_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace weft::nccl
