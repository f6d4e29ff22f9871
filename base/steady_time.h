// A wall clock that never jumps: what orders runs and paces rounds when the machine's clock is stepped.
#pragma once

#include "absl/time/time.h"

namespace weft {

// Follows the wall clock, but always goes forward at between half and one and a half times the monotonic
// rate. A step of the wall clock is thus made good slowly. Pure; one thread.
class SteadyTime {
 public:
  // Starts at `start`, e.g. the later of the wall clock and the last time that was handed out before a
  // restart.
  SteadyTime(absl::Time start, absl::Duration monotonic) : now_(start), monotonic_(monotonic) {}

  // The time at this reading of both clocks; at least a nanosecond later than before if `monotonic` moved.
  absl::Time At(absl::Time wall, absl::Duration monotonic) {
    const absl::Duration passed = monotonic - monotonic_;
    if (passed <= absl::ZeroDuration()) return now_;
    monotonic_ = monotonic;
    const absl::Time least = now_ + absl::Ceil(passed / 2, absl::Nanoseconds(1));
    const absl::Time most = now_ + passed * 1.5;
    now_ = wall < least ? least : wall > most ? most : wall;
    return now_;
  }

 private:
  absl::Time now_;
  absl::Duration monotonic_;
};

}  // namespace weft
