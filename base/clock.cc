#include "base/clock.h"

#include <time.h>
#include <algorithm>

#include "absl/time/clock.h"

namespace weft {
namespace {

class RealClock : public Clock {
 public:
  absl::Time Now() override { return absl::Now(); }
  absl::Duration Monotonic() override {
    timespec ts{};
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return absl::DurationFromTimespec(ts);
  }
  void WaitFor(Mutex& mutex, CondVar& cv, absl::Duration timeout) override WEFT_REQUIRES(mutex) {
    if (timeout <= absl::ZeroDuration()) return;
    // Bounded, so that a step of the wall clock cannot oversleep by more than this.
    timeout = std::min(timeout, absl::Seconds(1));
    cv.WaitFor(mutex, absl::ToChronoNanoseconds(absl::Ceil(timeout, absl::Milliseconds(1))));
  }
};

}  // namespace

Clock& Clock::Real() {
  static RealClock* clock = new RealClock;
  return *clock;
}

absl::Time SimulatedClock::Now() {
  MutexLock lock(mutex_);
  return now_;
}

absl::Duration SimulatedClock::Monotonic() {
  MutexLock lock(mutex_);
  return monotonic_;
}

void SimulatedClock::WaitFor(Mutex& mutex, CondVar& cv, absl::Duration timeout) {
  if (timeout <= absl::ZeroDuration()) return;
  // A short real wait: the caller's loop looks at the simulated time again.
  cv.WaitFor(mutex, std::chrono::milliseconds(1));
}

void SimulatedClock::Advance(absl::Duration by) {
  MutexLock lock(mutex_);
  now_ += by;
  monotonic_ += by;
}

void SimulatedClock::StepWall(absl::Duration by) {
  MutexLock lock(mutex_);
  now_ += by;
}

}  // namespace weft
