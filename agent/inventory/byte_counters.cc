#include "agent/inventory/byte_counters.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/inventory/sysfs.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr size_t kMaxCounters = 128;
constexpr uint32_t kInfinibandWordBytes = 4;
constexpr uint64_t kMax32 = std::numeric_limits<uint32_t>::max();

// Old port counters are narrow and stick at their greatest value: they then tell nothing.
std::optional<uint64_t> ReadCounter(const std::string& path) {
  const std::optional<uint64_t> value = ReadSysfsNumber(path);
  if (value == kMax32 || value == std::numeric_limits<uint64_t>::max()) return std::nullopt;
  return value;
}

void ReadRdmaPort(const std::string& device, const std::string& port, const std::string& folder,
                  std::vector<ByteCounter>* out) {
  ByteCounter counter = {.nic = device,
                         .port = port,
                         .rdma = true,
                         .unit_bytes = kInfinibandWordBytes,
                         .sent = ReadCounter(folder + "/counters/port_xmit_data"),
                         .received = ReadCounter(folder + "/counters/port_rcv_data")};
  if (!counter.sent && !counter.received) {
    counter.unit_bytes = 1;
    counter.sent = ReadCounter(folder + "/hw_counters/tx_bytes");
    counter.received = ReadCounter(folder + "/hw_counters/rx_bytes");
  }
  if (counter.sent || counter.received) out->push_back(std::move(counter));
}

void ReadRdma(const std::string& root, std::vector<ByteCounter>* out) {
  for (const std::string& device : ListFolder(root + "/sys/class/infiniband")) {
    if (!IsSafeName(device)) continue;
    const std::string ports = absl::StrCat(root, "/sys/class/infiniband/", device, "/ports");
    for (const std::string& port : ListFolder(ports)) {
      if (out->size() == kMaxCounters) return;
      ReadRdmaPort(device, port, absl::StrCat(ports, "/", port), out);
    }
  }
}

void ReadInterfaces(const std::string& root, std::vector<ByteCounter>* out) {
  std::vector<std::pair<bool, ByteCounter>> found;  // virtual, counter
  for (const std::string& name : ListFolder(root + "/sys/class/net")) {
    if (name == "lo" || !IsSafeName(name)) continue;
    const std::string folder = absl::StrCat(root, "/sys/class/net/", name);
    ByteCounter counter;
    counter.nic = name;
    counter.sent = ReadCounter(folder + "/statistics/tx_bytes");
    counter.received = ReadCounter(folder + "/statistics/rx_bytes");
    if (counter.sent || counter.received)
      found.emplace_back(LinkTarget(folder + "/device").empty(), std::move(counter));
  }
  std::stable_partition(found.begin(), found.end(), [](const auto& one) { return !one.first; });
  if (found.size() > kMaxCounters) found.resize(kMaxCounters);
  for (auto& [is_virtual, counter] : found) out->push_back(std::move(counter));
}

struct Difference {
  uint64_t raw = 0;
  bool reset = false;
};

// A step back from the upper half of a width is a wrap, since nothing moves half of it between two readings
// of a run; from anywhere else it is a counter that was set to zero.
Difference Subtract(uint64_t before, uint64_t after) {
  if (after >= before) return {after - before, false};
  if (before <= kMax32 && before > kMax32 / 2) return {after + (kMax32 + 1) - before, false};
  if (before > std::numeric_limits<uint64_t>::max() / 2) return {after - before, false};
  return {after, true};
}

// False when the counter is not in both readings.
bool AddDifference(std::optional<uint64_t> before, std::optional<uint64_t> after, uint32_t unit_bytes,
                   uint64_t* bytes, bool* reset) {
  if (!before || !after) return false;
  const Difference difference = Subtract(*before, *after);
  *bytes += difference.raw * unit_bytes;
  *reset = *reset || difference.reset;
  return true;
}

}  // namespace

std::vector<ByteCounter> ReadByteCounters(const std::string& root) {
  std::vector<ByteCounter> counters;
  ReadRdma(root, &counters);
  ReadInterfaces(root, &counters);
  return counters;
}

std::vector<NicTraffic> TrafficBetween(const std::vector<ByteCounter>& before,
                                       const std::vector<ByteCounter>& after) {
  std::vector<NicTraffic> out;
  for (const ByteCounter& now : after) {
    const auto then = std::find_if(before.begin(), before.end(), [&](const ByteCounter& one) {
      return one.nic == now.nic && one.port == now.port && one.rdma == now.rdma &&
             one.unit_bytes == now.unit_bytes;
    });
    if (then == before.end()) continue;
    NicTraffic traffic = {.nic = now.nic, .rdma = now.rdma};
    const bool sent =
        AddDifference(then->sent, now.sent, now.unit_bytes, &traffic.sent_bytes, &traffic.counter_reset);
    const bool received = AddDifference(then->received, now.received, now.unit_bytes, &traffic.received_bytes,
                                        &traffic.counter_reset);
    if (!sent && !received) continue;
    const auto same = std::find_if(out.begin(), out.end(), [&](const NicTraffic& one) {
      return one.nic == traffic.nic && one.rdma == traffic.rdma;
    });
    if (same == out.end()) {
      out.push_back(std::move(traffic));
      continue;
    }
    same->sent_bytes += traffic.sent_bytes;
    same->received_bytes += traffic.received_bytes;
    same->counter_reset = same->counter_reset || traffic.counter_reset;
  }
  return out;
}

}  // namespace weft
