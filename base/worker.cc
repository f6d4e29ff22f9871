#include "base/worker.h"

#include <pthread.h>

#include <utility>

namespace weft {

Worker::Worker(std::string name, Clock& clock, std::function<absl::Duration()> step)
    : name_(std::move(name)), clock_(clock), step_(std::move(step)) {}

Worker::~Worker() { Stop(); }

void Worker::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
    Loop();
  });
}

void Worker::Wake() {
  MutexLock lock(mutex_);
  woken_ = true;
  cv_.NotifyAll();
}

void Worker::Stop() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    cv_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void Worker::Loop() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (stop_) return;
      woken_ = false;
    }
    const absl::Duration wait = step_();
    const absl::Duration due = clock_.Monotonic() + wait;
    MutexLock lock(mutex_);
    while (!stop_ && !woken_ && clock_.Monotonic() < due) {
      clock_.WaitFor(mutex_, cv_, due - clock_.Monotonic());
    }
  }
}

}  // namespace weft
