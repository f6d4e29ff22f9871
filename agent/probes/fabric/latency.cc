#include "agent/probes/fabric/latency.h"

#include <algorithm>

namespace weft::fabric {
namespace {

constexpr uint32_t kWarmUp = 50;
// Where both ends of a test share a core, each spins while the other waits for it. During the warm-up they do
// so long enough that the scheduler moves one to a free core; after it no longer than a fast link needs.
constexpr int64_t kWarmUpSpin = 2 * kMillisecond;
constexpr int64_t kSpin = 100 * kMicrosecond;

int64_t SpinOf(uint32_t round) { return round < kWarmUp ? kWarmUpSpin : kSpin; }

double HalfSeconds(int64_t round_trip) { return static_cast<double>(round_trip) / 2e9; }

absl::StatusOr<std::vector<double>> Ping(Channel& channel, uint32_t rounds, int64_t deadline) {
  std::vector<double> samples;
  samples.reserve(rounds - kWarmUp);
  for (uint32_t i = 0; i < rounds; ++i) {
    const int64_t sent = NowTicks();
    if (absl::Status s = channel.SendPing(i, deadline); !s.ok()) return s;
    if (absl::Status s = channel.ExpectPing(i, SpinOf(i), deadline); !s.ok()) return s;
    if (i >= kWarmUp) samples.push_back(HalfSeconds(NowTicks() - sent));
  }
  return samples;
}

absl::StatusOr<std::vector<double>> Pong(Channel& channel, uint32_t rounds, int64_t deadline) {
  std::vector<double> samples;
  samples.reserve(rounds - kWarmUp);
  int64_t sent = 0;
  for (uint32_t i = 0; i < rounds; ++i) {
    if (absl::Status s = channel.ExpectPing(i, SpinOf(i), deadline); !s.ok()) return s;
    const int64_t now = NowTicks();
    if (i > kWarmUp) samples.push_back(HalfSeconds(now - sent));
    sent = now;
    if (absl::Status s = channel.SendPing(i, deadline); !s.ok()) return s;
  }
  return samples;
}

}  // namespace

absl::StatusOr<std::vector<double>> MeasureLatency(Channel& channel, uint32_t rank, uint32_t iterations,
                                                   int64_t deadline) {
  const uint32_t rounds = kWarmUp + std::max<uint32_t>(iterations, 2);
  return rank == 0 ? Ping(channel, rounds, deadline) : Pong(channel, rounds, deadline);
}

}  // namespace weft::fabric
