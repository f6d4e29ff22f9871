// When to try the server again. Pure; for one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

#include "absl/time/time.h"

namespace weft {

// Full jitter: each wait is uniform in [0, limit); the limit starts at the spread and doubles with each
// failure up to a cap, so that a fleet comes back spread out and a dead server is not besieged.
class ReconnectWaits {
 public:
  struct Options {
    absl::Duration spread = absl::Seconds(5);  // until the server says another
    absl::Duration cap = absl::Minutes(10);
    uint64_t seed = 0;
  };
  explicit ReconnectWaits(const Options& options)
      : options_(options), spread_(options.spread), random_(options.seed) {}

  // The server welcomed the agent and asked for this spread: failures are forgotten.
  void OnWelcome(absl::Duration spread) {
    spread_ = spread;
    failures_ = 0;
  }
  // How long to wait now that a stream or an attempt has failed.
  absl::Duration Next() {
    const absl::Duration limit = std::min(spread_ * static_cast<double>(1ull << failures_), options_.cap);
    if (failures_ < 20) ++failures_;
    return limit * std::uniform_real_distribution<double>(0, 1)(random_);
  }

 private:
  const Options options_;
  absl::Duration spread_;
  std::mt19937_64 random_;
  int failures_ = 0;
};

}  // namespace weft
