// From times to numbers. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "agent/probes/nccl/device_ranks.h"
#include "agent/probes/nccl/parameters.h"
#include "weft/v1/probe.pb.h"

namespace weft::nccl {

// What the steps took, each by its number.
struct StepTimes {
  std::vector<uint32_t> iterations;
  std::vector<std::vector<uint64_t>> own_ns;  // by own rank
  std::vector<std::vector<uint64_t>> all_ns;  // by rank over all participants; empty but for participant 0
};

// For each timed step, and each rail where they are split: bus bandwidth, algorithm bandwidth and time, from
// the mean of this participant's ranks. Rails have bus bandwidth alone, since the others follow from it.
std::vector<v1::Measurement> MakeMeasurements(const Parameters& parameters, const Ranks& ranks,
                                              const StepTimes& times);

}  // namespace weft::nccl
