// Paces bytes to a rate: stands for a link where none can be shaped. One thread.
#pragma once

#include <cstdint>

namespace weft::fabric {

// Starts empty: a message may go when the time to send it at the rate has passed, as if it had just left a
// wire of that rate. A sender that was held up may catch up by at most `depth_bytes`.
class TokenBucket {
 public:
  // `bytes_per_second` > 0. `now` in ticks.
  TokenBucket(double bytes_per_second, double depth_bytes, int64_t now);
  // Takes `bytes` if they may go now. A message larger than the depth needs only a full bucket, and what it
  // takes beyond that is owed.
  bool TryTake(uint64_t bytes, int64_t now);
  // Nanoseconds from `now` until TryTake(bytes) can succeed; 0 if it can now.
  int64_t WaitFor(uint64_t bytes, int64_t now);

 private:
  void Refill(int64_t now);
  double Needed(uint64_t bytes) const;

  const double bytes_per_nanosecond_;
  const double depth_;
  double tokens_ = 0;
  int64_t last_;
};

}  // namespace weft::fabric
