// What the NCCL probe does, with all defaults filled in. Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/v1/probe.pb.h"

namespace weft::nccl {

// Raised whenever the same fabric would give another number: part of the stack fingerprint.
inline constexpr int kFormulaVersion = 1;

enum class StepKind { kConnect, kWarmUp, kTimed, kCheck };

// What all ranks do between two agreements.
struct Step {
  StepKind kind = StepKind::kConnect;
  uint64_t message_bytes = 0;
  bool in_place = false;
  uint32_t iterations = 0;  // as asked for
};

// E.g. "timed 1048576 B in place": what Result.phase says.
std::string StepName(const Step& step);

struct Parameters {
  v1::NcclCollective collective = v1::NCCL_COLLECTIVE_ALL_GATHER;
  v1::NcclDataType data_type = v1::NCCL_DATA_TYPE_FLOAT32;
  bool host_timing = false;
  bool rail_split = false;
  std::string require_network;
  int64_t init_ticks = 0;   // allowed for libraries, rendezvous and connecting, each
  int64_t step_ticks = 0;   // allowed for each other step
  std::vector<Step> steps;  // the first is kConnect; a kTimed step comes right after its kWarmUp
  uint64_t max_message_bytes = 0;
  uint32_t digest = 0;  // equal at all participants if and only if they do the same
};

// `probe` is within the bounds of its proto.
Parameters MakeParameters(const v1::NcclProbe& probe);

}  // namespace weft::nccl
