// What the fabric probe does, with all defaults filled in. Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/v1/probe.pb.h"

namespace weft::fabric {

// Raised whenever the same link would give another number: part of the stack fingerprint.
inline constexpr int kFormulaVersion = 1;

// One timed transfer in one direction.
struct Transfer {
  uint64_t message_bytes = 0;
  uint64_t messages = 0;          // in the timed part
  uint64_t warm_up_messages = 0;  // before it
  uint64_t slots = 0;             // messages in flight, each with a place of its own in memory
  uint64_t moved_bytes() const { return message_bytes * messages; }
};

struct Parameters {
  std::string provider;             // empty: by order of preference
  std::string domain;               // empty: each
  std::vector<Transfer> transfers;  // empty: no bandwidth
  uint32_t latency_iterations = 0;  // 0: no latency
  uint64_t region_bytes = 0;        // memory that the transfers need at each end
  uint32_t digest = 0;              // equal at both ends if and only if they measure the same
};

// Memory for one end's messages in flight; fewer are in flight when their size leaves no room for more.
inline constexpr uint64_t kMaxRegionBytes = 64ULL << 20;
// Bounds the run of tiny messages over many bytes.
inline constexpr uint64_t kMaxMessages = 1000000;

// `probe` is within the bounds of its proto.
Parameters MakeParameters(const v1::FabricProbe& probe);

}  // namespace weft::fabric
