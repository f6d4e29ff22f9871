// Time for loops. Logic takes `absl::Time now`; only loops hold a Clock. absl::Now() is called nowhere else.
#pragma once

#include <vector>

#include "absl/time/time.h"
#include "base/mutex.h"

namespace weft {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Wall clock, UTC.
  virtual absl::Time Now() = 0;
  // Monotonic time since an arbitrary start; counts through suspend; for intervals and deadlines.
  virtual absl::Duration Monotonic() = 0;
  // Waits on `cv` until notified, or about `timeout` has passed. May return early.
  virtual void WaitFor(Mutex& mutex, CondVar& cv, absl::Duration timeout) WEFT_REQUIRES(mutex) = 0;

  // The machine's clocks. Lives for ever.
  static Clock& Real();
};

// Stands still until told. Waiters wake when Advance passes their time.
class SimulatedClock : public Clock {
 public:
  explicit SimulatedClock(absl::Time start) : now_(start) {}
  absl::Time Now() override;
  absl::Duration Monotonic() override;
  void WaitFor(Mutex& mutex, CondVar& cv, absl::Duration timeout) override WEFT_REQUIRES(mutex);
  // Moves wall and monotonic clock forward and wakes all waiters.
  void Advance(absl::Duration by);
  // Moves only the wall clock, in either direction.
  void StepWall(absl::Duration by);

 private:
  Mutex mutex_;
  absl::Time now_ WEFT_GUARDED_BY(mutex_);
  absl::Duration monotonic_ WEFT_GUARDED_BY(mutex_) = absl::ZeroDuration();
};

}  // namespace weft
