// When to try the server again. Pure; for one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>

#include "absl/time/time.h"

namespace weft {

// Full jitter: the first wait is uniform in [0, spread), each further one in [0, 2 spreads). So a fleet comes
// back spread out, a dead server hears from each agent once per spread, and one that was away for an hour has
// its agents back as soon as one that was away for a minute.
class ReconnectWaits {
 public:
  struct Options {
    absl::Duration spread = absl::Seconds(5);  // until the server says another
    uint64_t seed = 0;
  };
  explicit ReconnectWaits(const Options& options) : spread_(options.spread), random_(options.seed) {}

  // The server welcomed the agent and asked for this spread: failures are forgotten.
  void OnWelcome(absl::Duration spread) {
    spread_ = spread;
    has_failed_ = false;
  }
  // How long to wait now that a stream or an attempt has failed.
  absl::Duration Next() {
    const absl::Duration limit = std::max(spread_, kLeastSpread) * (std::exchange(has_failed_, true) ? 2 : 1);
    return limit * std::uniform_real_distribution<double>(0, 1)(random_);
  }

 private:
  static constexpr absl::Duration kLeastSpread = absl::Milliseconds(100);  // never in a tight loop

  absl::Duration spread_;
  std::mt19937_64 random_;
  bool has_failed_ = false;
};

}  // namespace weft
