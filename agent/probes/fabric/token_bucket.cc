#include "agent/probes/fabric/token_bucket.h"

#include <algorithm>
#include <cmath>

namespace weft::fabric {

TokenBucket::TokenBucket(double bytes_per_second, double depth_bytes, int64_t now)
    : bytes_per_nanosecond_(bytes_per_second / 1e9), depth_(std::max(depth_bytes, 1.0)), last_(now) {}

void TokenBucket::Refill(int64_t now) {
  tokens_ = std::min(
      depth_, tokens_ + static_cast<double>(std::max<int64_t>(0, now - last_)) * bytes_per_nanosecond_);
  last_ = std::max(last_, now);
}

double TokenBucket::Needed(uint64_t bytes) const { return std::min(static_cast<double>(bytes), depth_); }

bool TokenBucket::TryTake(uint64_t bytes, int64_t now) {
  Refill(now);
  if (tokens_ < Needed(bytes)) return false;
  tokens_ -= static_cast<double>(bytes);
  return true;
}

int64_t TokenBucket::WaitFor(uint64_t bytes, int64_t now) {
  Refill(now);
  const double missing = Needed(bytes) - tokens_;
  return missing <= 0 ? 0 : static_cast<int64_t>(std::ceil(missing / bytes_per_nanosecond_));
}

}  // namespace weft::fabric
