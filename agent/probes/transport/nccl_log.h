// Reads what NCCL logs with NCCL_DEBUG=INFO (subsystems INIT, NET, GRAPH, P2P, SHM), shapes of 2.12 to 2.30.
// Pure; any thread. Takes any bytes: what it does not know it keeps, and it never fails.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace weft {

// One "Channel … via …" line.
struct NcclChannel {
  int64_t from_rank = -1;
  int64_t to_rank = -1;
  bool receive = false;   // "[receive]"; "[send]" and lines without either: false
  std::string transport;  // "P2P/CUMEM", "SHM/direct", "NET/IB", "COLLNET/SHARP"; without device and flags
  std::string device;     // index of the network device as NCCL counts them; empty for P2P and SHM
  bool gdr = false;       // "/GDRDMA"
  std::string line;
  bool is_network() const { return transport.compare(0, 4, "NET/") == 0; }
};

// "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'".
struct NcclGdr {
  std::string network;
  std::string nic;
  bool enabled = false;
  std::string line;
};

// What the log of one communicator says. Ranks are numbers of that communicator: logs of several must not be
// mixed.
struct NcclFacts {
  std::string version;  // "2.28.3+cuda13.0"
  std::string network;  // of the last "Using network …"
  std::string plugin;   // external network plugin that was loaded or assigned
  // Devices of a network by its index, from "Using [0]mlx5_0:1/IB …" and the GDR lines.
  std::map<std::string, std::map<std::string, std::string>> devices;
  std::vector<NcclChannel> channels;  // the first kMaxChannels
  uint64_t channel_count = 0;
  std::vector<NcclGdr> gdr;
  std::optional<bool> ring_gdr;        // of "Connected all rings, use ring PXN x GDR y": false if any said 0
  std::optional<bool> nvls;            // multicast available on every device that said so
  std::optional<bool> dma_buf;         // available on some GPU
  std::optional<uint32_t> found_nics;  // as a plugin counts them
  std::set<int64_t> local_ranks;       // ranks that this log was written by
  bool init_complete = false;
  // Lines that a verdict rests on, as they came but for control characters, cut to 512 bytes.
  std::vector<std::string> network_lines;    // what was chosen and found, a failure to load a plugin included
  std::vector<std::string> plugin_failures;  // a plugin was looked for and not found, or did not load
  std::vector<std::string> ring_lines;
  std::vector<std::string> nvls_lines;
  std::vector<std::string> p2p_off_lines;  // "P2P is disabled between …"
  std::vector<std::string> link_events;    // asynchronous events, changes of speed
  std::vector<std::string> warnings;       // every WARN line
  // Lines that the parser does not know: the first kMaxUnknown, and how many there were.
  std::vector<std::string> unknown;
  uint64_t unknown_count = 0;
};

inline constexpr size_t kMaxNcclChannels = 16384;
inline constexpr size_t kMaxNcclUnknown = 64;

// Takes the text whole; lines end with '\n' or "\r\n". Of a line longer than 4 KiB the rest is ignored.
NcclFacts ParseNcclLog(absl::string_view text);

// Name of the device that a channel uses: as the log names it, else its index, e.g. "3"; empty for P2P and
// SHM.
std::string DeviceOf(const NcclFacts& facts, const NcclChannel& channel);

}  // namespace weft
