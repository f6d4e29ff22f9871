// One named thread that runs a step again and again.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace weft {

// Start and Stop from one thread; Wake from any, also from within the step. The destructor stops.
class Worker {
 public:
  // `step` returns how long to wait until it wants to run again; Wake shortens the wait. Steps never overlap.
  // `name` is the thread's name, at most 15 characters.
  Worker(std::string name, Clock& clock, std::function<absl::Duration()> step);
  ~Worker();
  void Start();
  // Runs the step soon.
  void Wake() WEFT_EXCLUDES(mutex_);
  // Waits for a step under way, then joins. Idempotent.
  void Stop() WEFT_EXCLUDES(mutex_);

 private:
  void Loop();

  const std::string name_;
  Clock& clock_;
  const std::function<absl::Duration()> step_;
  Mutex mutex_;
  CondVar cv_;
  bool woken_ WEFT_GUARDED_BY(mutex_) = false;
  bool stop_ WEFT_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace weft
