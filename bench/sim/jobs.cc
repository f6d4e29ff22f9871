#include "bench/sim/jobs.h"

#include <algorithm>
#include <cmath>

namespace weft::sim {
namespace {

constexpr double kSpread = 1.1;   // of the logarithm of a job's length: exp(1.28 x 1.1) is 4.1
constexpr int kLargestPower = 6;  // jobs have 1 to 64 nodes

}  // namespace

Jobs::Jobs(size_t nodes, double busy_share, absl::Duration middle, uint64_t seed)
    : busy_share_(busy_share), middle_(middle), random_(seed), ends_(nodes, -absl::InfiniteDuration()) {}

void Jobs::AdvanceTo(absl::Duration time) {
  time_ = time;
  const auto wanted = static_cast<size_t>(std::lround(busy_share_ * static_cast<double>(ends_.size())));
  const auto busy = [this] {
    return static_cast<size_t>(
        std::count_if(ends_.begin(), ends_.end(), [this](absl::Duration end) { return end > time_; }));
  };
  for (size_t held = busy(); held < wanted; held = busy()) Begin();
}

// Takes the first idle nodes from a random place on, as schedulers do.
void Jobs::Begin() {
  const double length = std::exp(kSpread * std::normal_distribution<double>()(random_));
  const absl::Duration end = time_ + std::max(absl::Minutes(1), middle_ * length);
  size_t wanted = std::min(size_t{1} << (random_() % (kLargestPower + 1)), 1 + ends_.size() / 8);
  const size_t first = random_() % ends_.size();
  for (size_t i = 0; i < ends_.size() && wanted > 0; ++i) {
    absl::Duration& held = ends_[(first + i) % ends_.size()];
    if (held > time_) continue;
    held = end;
    --wanted;
  }
}

}  // namespace weft::sim
