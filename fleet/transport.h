// What carried the bytes of a run, judged against what the node should have. Plain values; any thread.
// Meanings: proto/weft/v1/transport.proto.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft {

enum class TransportVerdict {
  kOk = 1,
  kFellBackToTcp = 2,
  kGdrOff = 3,
  kPluginMissing = 4,
  kWrongNic = 5,
  kNicUnused = 6,
  kNvlsLost = 7,
  kP2pLost = 8,
  kNoEvidence = 9,
};

struct TransportFinding {
  TransportVerdict verdict = TransportVerdict::kNoEvidence;
  std::string detail;
  std::vector<std::string> evidence;
  bool operator==(const TransportFinding&) const = default;
};

struct TransportUse {
  std::string transport;  // "P2P/CUMEM", "SHM/direct", "NET/IB"
  std::string device;     // NIC of a network, or its index; else empty
  bool gdr = false;
  uint32_t connections = 0;
  bool operator==(const TransportUse&) const = default;
};

struct NicTraffic {
  std::string nic;
  bool rdma = false;
  uint64_t sent_bytes = 0;
  uint64_t received_bytes = 0;
  bool counter_reset = false;
  bool operator==(const NicTraffic&) const = default;
};

struct TransportProof {
  TransportVerdict verdict = TransportVerdict::kNoEvidence;  // the gravest
  std::vector<TransportFinding> findings;                    // what is wrong
  std::string network;
  std::string nccl_version;
  std::string plugin;
  std::vector<TransportUse> uses;
  std::vector<NicTraffic> traffic;
  std::optional<bool> nvls;
  uint64_t unknown_lines = 0;
  bool operator==(const TransportProof&) const = default;
};

}  // namespace weft
