// Measures copies within one node, one after the other. Everything may hang in a sick driver: call it on a
// thread that may be given up.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/probes/cuda/cuda_driver.h"
#include "weft/v1/probe.pb.h"

namespace weft::gpu_copy {

// Raised whenever the same machine would give another number: part of the stack fingerprint.
inline constexpr int kFormulaVersion = 1;

struct Copies {
  std::vector<v1::Measurement> measurements;
  std::vector<std::string> notes;  // what could not be done as intended
  std::string stack_fingerprint;
};

// Within each GPU, between each GPU and each NUMA node's pinned memory, and from each GPU to each other.
// `on_copy` is told each pair before it is measured. kNotFound when there is no driver or GPU; kCancelled
// once `stop` is set; kDataLoss when what arrived is not what was sent.
absl::StatusOr<Copies> MeasureCopies(const v1::GpuCopyProbe& probe, const std::atomic<bool>& stop,
                                     const std::function<void(const std::string& pair)>& on_copy);

}  // namespace weft::gpu_copy
