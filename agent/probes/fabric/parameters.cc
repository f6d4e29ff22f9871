#include "agent/probes/fabric/parameters.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/crc32c.h"

namespace weft::fabric {
namespace {

constexpr uint64_t kDefaultMessageBytes = 1 << 20;
constexpr uint64_t kDefaultBytesPerSize = 64ULL << 20;
constexpr uint32_t kDefaultWindow = 64;
constexpr uint32_t kDefaultLatencyIterations = 1000;

template <typename T>
T OrDefault(T value, T fallback) {
  return value == 0 ? fallback : value;
}

Transfer MakeTransfer(uint64_t message_bytes, uint64_t window, uint64_t bytes) {
  Transfer t;
  t.message_bytes = message_bytes;
  t.messages = std::clamp<uint64_t>(bytes / message_bytes, 1, kMaxMessages);
  t.slots = std::clamp<uint64_t>(window, 1, std::max<uint64_t>(1, kMaxRegionBytes / message_bytes));
  // One round of the window, but no more than half of the timed part: on a slow link the warm-up must not
  // be most of the run.
  t.warm_up_messages = std::clamp<uint64_t>(t.slots, 1, std::max<uint64_t>(1, t.messages / 2));
  return t;
}

uint32_t DigestOf(const Parameters& p) {
  std::string text = absl::StrCat(kFormulaVersion, "|", p.latency_iterations);
  for (const Transfer& t : p.transfers)
    absl::StrAppend(&text, "|", t.message_bytes, ",", t.messages, ",", t.warm_up_messages, ",", t.slots);
  return Crc32c(text);
}

}  // namespace

Parameters MakeParameters(const v1::FabricProbe& probe) {
  Parameters p;
  p.provider = probe.provider();
  p.domain = probe.domain();
  const bool default_size = probe.message_size_bytes().empty();
  std::vector<uint64_t> sizes = default_size ? std::vector<uint64_t>{kDefaultMessageBytes}
                                             : std::vector<uint64_t>(probe.message_size_bytes().begin(),
                                                                     probe.message_size_bytes().end());
  if (probe.skip_bandwidth()) sizes.clear();
  for (const uint64_t size : sizes) {
    p.transfers.push_back(MakeTransfer(size, OrDefault(probe.window(), kDefaultWindow),
                                       OrDefault(probe.bytes_per_size(), kDefaultBytesPerSize)));
    p.region_bytes = std::max(p.region_bytes, p.transfers.back().slots * size);
  }
  if (!probe.skip_latency())
    p.latency_iterations = OrDefault(probe.latency_iterations(), kDefaultLatencyIterations);
  p.digest = DigestOf(p);
  return p;
}

}  // namespace weft::fabric
