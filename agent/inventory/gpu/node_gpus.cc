#include "agent/inventory/gpu/node_gpus.h"

#include <string>

namespace weft {
namespace {

v1::Gpu* FindOrAdd(const std::string& pci_address, v1::Node* node) {
  for (v1::Gpu& gpu : *node->mutable_gpus())
    if (gpu.pci_address() == pci_address) return &gpu;
  v1::Gpu* gpu = node->add_gpus();
  gpu->set_pci_address(pci_address);
  return gpu;
}

}  // namespace

void AddGpuReport(const v1::GpuReport& report, const v1::GpuSource& source, v1::Node* node) {
  for (const v1::Gpu& from : report.gpus()) {
    v1::Gpu* gpu = FindOrAdd(from.pci_address(), node);
    if (!from.uuid().empty()) gpu->set_uuid(from.uuid());
    if (!from.model().empty()) gpu->set_model(from.model());
    *gpu->mutable_facts() = from.facts();
  }
  *node->mutable_gpu_source() = source;
  auto& versions = *node->mutable_versions();
  if (!report.driver_version().empty()) versions["nvidia_driver"] = report.driver_version();
  if (!report.nvml_version().empty()) versions["nvml"] = report.nvml_version();
  if (!report.cuda_version().empty()) versions["cuda"] = report.cuda_version();
}

}  // namespace weft
