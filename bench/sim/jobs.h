// Jobs that hold nodes of the fleet: neighbouring nodes, for hours, so that about the wanted share is busy at
// any time. Everything follows from the seed. Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/time/time.h"

namespace weft::sim {

class Jobs {
 public:
  // `middle` is the middle length of a job; one in ten is longer than four times that.
  Jobs(size_t nodes, double busy_share, absl::Duration middle, uint64_t seed);
  void AdvanceTo(absl::Duration time);
  bool IsBusy(size_t node) const { return ends_[node] > time_; }

 private:
  void Begin();

  const double busy_share_;
  const absl::Duration middle_;
  std::mt19937_64 random_;
  absl::Duration time_ = -absl::InfiniteDuration();
  std::vector<absl::Duration> ends_;  // of the job that holds the node, or held it last
};

}  // namespace weft::sim
