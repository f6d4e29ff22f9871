// Judges what carried the bytes of an NCCL run. Pure; any thread.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "agent/probes/transport/nccl_log.h"
#include "fleet/transport.h"

namespace weft {

// What the node says that it has, as far as this run should use it.
struct TransportExpectation {
  // An RDMA fabric connects this node with its peers.
  bool has_rdma_fabric = false;
  // Names that NCCL may give to the right network, e.g. {"Libfabric", "AWS Libfabric", "OFI"}; compared
  // without regard to case. Empty: any but Socket where there is an RDMA fabric, any where there is none.
  std::vector<std::string> networks = {};
  // NICs that this run should use, all of them: RDMA devices, or interfaces where there is no RDMA. Empty:
  // unknown, then no NIC is judged.
  std::vector<std::string> nics = {};
  // GPUDirect RDMA works here.
  bool gdr = false;
  // NVLink multicast works here and the run is large enough that NCCL uses it.
  bool nvls = false;
  // All GPUs of this host reach each other peer to peer.
  bool p2p = false;
  // Ranks whose GPUs are in this host; empty: those that wrote the log.
  std::set<int64_t> local_ranks = {};
  // Bytes that had to leave or reach this node; 0: unknown, then counters are shown and not judged.
  uint64_t network_bytes = 0;
};

// The NICs' traffic is that of the run's time and may be empty. Findings come gravest first, one per verdict,
// with at most 8 lines of evidence. OK needs evidence: a log that names channels or a network, or counters.
TransportProof JudgeTransport(const NcclFacts& facts, const std::vector<NicTraffic>& traffic,
                              const TransportExpectation& expected);

// "FELL_BACK_TO_TCP".
const char* TransportVerdictName(TransportVerdict verdict);

}  // namespace weft
