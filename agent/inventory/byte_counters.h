// What NICs have sent and received, by the kernel's counters. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fleet/transport.h"

namespace weft {

// One direction of one port. Bytes are `raw` times `unit_bytes`: InfiniBand counts words of 4 bytes.
struct ByteCounter {
  std::string nic;  // kernel name of the device or interface
  std::string port;
  bool rdma = false;
  uint32_t unit_bytes = 1;
  // nullopt: there is no such counter, it says "N/A", or it is stuck at its greatest value.
  std::optional<uint64_t> sent;
  std::optional<uint64_t> received;
  bool operator==(const ByteCounter&) const = default;
};

// RDMA ports (port_xmit_data and port_rcv_data; tx_bytes and rx_bytes where EFA has those) and network
// interfaces but loopback, those on a bus first; at most 128 of each. `root` is where /sys lies.
std::vector<ByteCounter> ReadByteCounters(const std::string& root);

// What moved between two readings, ports of a NIC added up. A counter that wrapped at 32 or 64 bits counts
// on; one that began anew counts from zero and says so. NICs without a usable counter in both are left out.
std::vector<NicTraffic> TrafficBetween(const std::vector<ByteCounter>& before,
                                       const std::vector<ByteCounter>& after);

}  // namespace weft
