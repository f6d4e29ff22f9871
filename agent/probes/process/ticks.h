// Monotonic time in whole nanoseconds, for hot loops of probes. Any thread.
#pragma once

#include <time.h>

#include <cstdint>

namespace weft {

inline constexpr int64_t kMicrosecond = 1000;
inline constexpr int64_t kMillisecond = 1000 * kMicrosecond;
inline constexpr int64_t kSecond = 1000 * kMillisecond;

// Nanoseconds since an arbitrary start.
inline int64_t NowTicks() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

}  // namespace weft
