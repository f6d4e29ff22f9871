#include "agent/probes/nccl/worker.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <utility>

#include "agent/probes/nccl/settings.h"
#include "agent/probes/process/ticks.h"

namespace weft::nccl {
namespace {

// How long the worker may take to see that it is to stop, before the communicators are aborted under it.
constexpr int64_t kStopPatience = 300 * kMillisecond;

}  // namespace

GpuWorker::GpuWorker(const Parameters& parameters)
    : parameters_(parameters),
      event_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { Loop(); }) {}

void GpuWorker::Loop() {
  while (true) {
    std::function<void()> request;
    {
      MutexLock lock(mutex_);
      while (requests_.empty() && !quit_) changed_.WaitFor(mutex_, std::chrono::seconds(1));
      if (quit_) {
        ended_ = true;
        changed_.NotifyAll();
        return;
      }
      request = std::move(requests_.front());
      requests_.erase(requests_.begin());
    }
    request();
  }
}

void GpuWorker::Post(std::function<void()> request) {
  MutexLock lock(mutex_);
  requests_.push_back(std::move(request));
  changed_.NotifyAll();
}

void GpuWorker::Say(WorkerEvent event) {
  {
    MutexLock lock(mutex_);
    events_.push_back(std::move(event));
  }
  eventfd_write(event_fd_, 1);
}

std::vector<WorkerEvent> GpuWorker::TakeEvents() {
  eventfd_t count;
  eventfd_read(event_fd_, &count);
  MutexLock lock(mutex_);
  return std::exchange(events_, {});
}

void GpuWorker::Open(bool make_unique_ids, std::vector<std::string> own_settings) {
  Post([this, make_unique_ids, own_settings = std::move(own_settings)] {
    absl::StatusOr<std::unique_ptr<DeviceRanks>> ranks = DeviceRanks::Open(parameters_, stop_);
    if (!ranks.ok()) return Say({.kind = WorkerEvent::Kind::kFailed, .status = ranks.status()});
    owned_ranks_ = *std::move(ranks);
    WorkerEvent opened = {.kind = WorkerEvent::Kind::kOpened};
    if (make_unique_ids) {
      absl::StatusOr<std::vector<std::string>> ids = owned_ranks_->MakeUniqueIds();
      if (!ids.ok()) return Say({.kind = WorkerEvent::Kind::kFailed, .status = ids.status()});
      opened.unique_ids = *std::move(ids);
    }
    // Here, since a user's folder may lie on a network that hangs.
    opened.settings = EffectiveSettings(OwnEnvironment(), ReadSettingsFiles(), own_settings);
    ranks_ = owned_ranks_.get();
    Say(std::move(opened));
  });
}

void GpuWorker::Connect(Ranks ranks, std::vector<std::string> unique_ids) {
  Post([this, ranks = std::move(ranks), unique_ids = std::move(unique_ids)] {
    const absl::Status status = owned_ranks_->Connect(ranks, unique_ids);
    if (!status.ok()) return Say({.kind = WorkerEvent::Kind::kFailed, .status = status});
    Say({.kind = WorkerEvent::Kind::kDone});
  });
}

void GpuWorker::Run(const Step& step, uint32_t iterations) {
  Post([this, step, iterations] {
    absl::StatusOr<std::vector<uint64_t>> times =
        owned_ranks_->Run(step, iterations, [this] { Say({.kind = WorkerEvent::Kind::kEntered}); });
    if (!times.ok()) return Say({.kind = WorkerEvent::Kind::kFailed, .status = times.status()});
    Say({.kind = WorkerEvent::Kind::kDone, .rank_ns = *std::move(times)});
  });
}

void GpuWorker::Close() {
  Post([this] {
    const absl::Status status = owned_ranks_->Close();
    if (!status.ok()) return Say({.kind = WorkerEvent::Kind::kFailed, .status = status});
    Say({.kind = WorkerEvent::Kind::kClosed});
  });
}

bool GpuWorker::WaitUntilIdle(int64_t give_up) {
  MutexLock lock(mutex_);
  while (!ended_ && NowTicks() < give_up) changed_.WaitFor(mutex_, std::chrono::milliseconds(5));
  return ended_;
}

bool GpuWorker::Finish(int64_t patience_ticks) {
  const int64_t give_up = NowTicks() + patience_ticks;
  stop_ = true;
  {
    MutexLock lock(mutex_);
    quit_ = true;
    changed_.NotifyAll();
  }
  WaitUntilIdle(std::min(give_up, NowTicks() + kStopPatience));
  // Also where the thread hangs in NCCL: this is what sets it free.
  const bool aborted = ranks_ == nullptr || ranks_.load()->Abort(give_up - NowTicks());
  const bool ended = WaitUntilIdle(give_up);
  if (ended) thread_.join();
  return aborted && ended;
}

}  // namespace weft::nccl
