// Reads the GPUs of this machine through NVML. For weft-gpu-inventory: any call may hang.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "agent/inventory/gpu/nvml.h"
#include "weft/v1/gpu_reader.pb.h"

namespace weft {

// One thread. What the driver does not support, or a lost GPU does not tell, is unset; nothing is an error.
class GpuReader {
 public:
  // `on_phase` hears what the next call is about, before it is made. `library` outlives the reader.
  GpuReader(const nvml::Library& library, std::function<void(const std::string&)> on_phase);

  // Everything. At most 64 GPUs.
  v1::GpuReport ReadReport();
  // Who uses the GPUs now.
  v1::GpuActivity ReadActivity();
  // Takes what the driver has reported since the last call; ReadReport gives it out. Never waits.
  void CollectXids(absl::Time now);

 private:
  struct Device {
    nvml::Device handle;
    std::string pci_address;
  };

  void FindDevices();
  void ListenForXids();
  v1::Gpu ReadGpu(const Device& device);
  void ReadPcie(nvml::Device device, v1::GpuFacts* facts) const;
  void ReadNvLinks(nvml::Device device, v1::GpuFacts* facts) const;
  void ReadFields(nvml::Device device, v1::GpuFacts* facts) const;
  void ReadPeers(const Device& device, v1::GpuFacts* facts) const;
  void ReadFabric(nvml::Device device, v1::GpuFacts* facts) const;
  void ReadMemory(nvml::Device device, v1::GpuFacts* facts) const;
  void ReadProcesses(nvml::Device device, v1::GpuUse* use) const;

  const nvml::Library& library_;
  const nvml::Api& api_;
  const std::function<void(const std::string&)> on_phase_;
  std::vector<Device> devices_;
  std::vector<std::string> warnings_;  // GPUs that cannot be reached
  nvml::EventSet events_ = nullptr;
  std::map<nvml::Device, std::deque<v1::GpuXid>> xids_;
};

}  // namespace weft
