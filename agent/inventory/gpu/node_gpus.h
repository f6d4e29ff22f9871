// Puts what the driver says of the GPUs into the node's description. Pure; any thread.
#pragma once

#include "weft/v1/fleet.pb.h"
#include "weft/v1/gpu_reader.pb.h"

namespace weft {

// GPUs are matched by PCI address; those that only the driver shows are added, those that only the bus shows
// stay without facts. Also sets gpu_source and the versions "nvidia_driver", "nvml" and "cuda".
void AddGpuReport(const v1::GpuReport& report, const v1::GpuSource& source, v1::Node* node);

}  // namespace weft
