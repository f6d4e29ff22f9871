#include "agent/probes/fabric/distribution.h"

#include <algorithm>
#include <cmath>

namespace weft::fabric {
namespace {

constexpr uint64_t kBlocks = 16;
constexpr uint64_t kMaxBlockMessages = 32;
// Of the average block's time: a shorter one is a burst.
constexpr double kBurst = 0.5;

double Percentile(const std::vector<double>& sorted, double fraction) {
  const double rank = std::ceil(fraction * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

}  // namespace

v1::Distribution Summarize(std::vector<double> values) {
  v1::Distribution d;
  if (values.empty()) return d;
  std::sort(values.begin(), values.end());
  d.set_min(values.front());
  d.set_p10(Percentile(values, 0.10));
  d.set_p50(Percentile(values, 0.50));
  d.set_p90(Percentile(values, 0.90));
  d.set_p99(Percentile(values, 0.99));
  d.set_max(values.back());
  d.set_count(values.size());
  return d;
}

BlockTimes::BlockTimes(uint64_t messages, uint64_t message_bytes)
    : block_messages_(std::clamp<uint64_t>(messages / kBlocks, 1, kMaxBlockMessages)),
      block_bytes_(static_cast<double>(block_messages_ * message_bytes)) {
  ends_.reserve(messages / block_messages_);
}

void BlockTimes::OnComplete(int64_t now) {
  last_ = now;
  if (++completed_ % block_messages_ == 0) ends_.push_back(now);
}

std::vector<double> BlockTimes::Rates(int64_t start) const {
  if (ends_.empty() || ends_.back() <= start) return {};
  const double average = static_cast<double>(ends_.back() - start) / static_cast<double>(ends_.size());
  std::vector<double> rates;
  double bytes = 0;
  for (const int64_t end : ends_) {
    bytes += block_bytes_;
    const auto elapsed = static_cast<double>(end - start);
    if (elapsed < average * kBurst) continue;
    rates.push_back(bytes * 1e9 / elapsed);
    start = end;
    bytes = 0;
  }
  return rates;
}

}  // namespace weft::fabric
