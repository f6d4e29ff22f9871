#include "agent/inventory/gpu/gpu_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr unsigned kMaxGpus = 64;
constexpr size_t kMaxXids = 16;
constexpr unsigned kMaxListedProcesses = 4096;
constexpr int kMaxProcesses = 256;
constexpr int kMaxEventsAtOnce = 256;
constexpr unsigned long long kUnknownMemory = ~0ULL;

std::string Text(const char* buffer, size_t size) {
  const absl::string_view text(buffer, size);
  return EscapeControl(CutUtf8(ToValidUtf8(text.substr(0, text.find('\0'))), 128));
}

// A call that fills a buffer of text; empty when it cannot.
template <typename Call>
std::string ReadText(Call call) {
  std::array<char, 256> buffer = {};
  return call(buffer.data(), static_cast<unsigned>(buffer.size())) == nvml::kSuccess
             ? Text(buffer.data(), buffer.size())
             : std::string();
}

// As /sys names it: NVML writes eight digits of domain and capitals.
std::string PciAddress(const nvml::PciInfo& info) {
  return absl::StrFormat("%04x:%02x:%02x.0", info.domain, info.bus, info.device);
}

v1::P2pStatus P2pStatusOf(unsigned status) {
  switch (status) {
    case 0:
      return v1::P2P_STATUS_OK;
    case 1:
      return v1::P2P_STATUS_CHIPSET_NOT_SUPPORTED;
    case 2:
      return v1::P2P_STATUS_GPU_NOT_SUPPORTED;
    case 3:
      return v1::P2P_STATUS_TOPOLOGY_NOT_SUPPORTED;
    case 4:
      return v1::P2P_STATUS_DISABLED;
    case 5:
      return v1::P2P_STATUS_NOT_SUPPORTED;
    default:
      return v1::P2P_STATUS_UNSPECIFIED;
  }
}

v1::GpuTopology TopologyOf(unsigned level) {
  switch (level) {
    case 0:
      return v1::GPU_TOPOLOGY_INTERNAL;
    case 10:
      return v1::GPU_TOPOLOGY_SINGLE_SWITCH;
    case 20:
      return v1::GPU_TOPOLOGY_MULTIPLE_SWITCHES;
    case 30:
      return v1::GPU_TOPOLOGY_HOST_BRIDGE;
    case 40:
      return v1::GPU_TOPOLOGY_NUMA_NODE;
    case 50:
      return v1::GPU_TOPOLOGY_SYSTEM;
    default:
      return v1::GPU_TOPOLOGY_UNSPECIFIED;
  }
}

std::string UuidText(const unsigned char (&bytes)[16]) {
  std::string text;
  bool any = false;
  for (size_t i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    absl::StrAppendFormat(&text, "%02x", bytes[i]);
    any = any || bytes[i] != 0;
  }
  return any ? text : std::string();
}

uint64_t FieldNumber(const nvml::FieldValue& field) {
  if (field.type == 0) return field.value.as_double > 0 ? static_cast<uint64_t>(field.value.as_double) : 0;
  return field.type == 1 ? field.value.as_unsigned : field.value.as_long;
}

// The function's answer, or nullopt where the library or the GPU cannot say.
template <typename Function>
std::optional<unsigned> Ask(Function function, nvml::Device device) {
  unsigned value = 0;
  if (function == nullptr || function(device, &value) != nvml::kSuccess) return std::nullopt;
  return value;
}

}  // namespace

GpuReader::GpuReader(const nvml::Library& library, std::function<void(const std::string&)> on_phase)
    : library_(library), api_(library.api()), on_phase_(std::move(on_phase)) {
  FindDevices();
  ListenForXids();
}

void GpuReader::FindDevices() {
  on_phase_("count of GPUs");
  unsigned count = 0;
  if (const nvml::Return code = api_.DeviceGetCount_v2(&count); code != nvml::kSuccess)
    warnings_.push_back(absl::StrCat("GPUs cannot be counted: ", library_.Describe(code)));
  for (unsigned i = 0; i < std::min(count, kMaxGpus); ++i) {
    on_phase_(absl::StrCat("handle of GPU ", i));
    Device device = {};
    nvml::PciInfo pci = {};
    nvml::Return code = api_.DeviceGetHandleByIndex_v2(i, &device.handle);
    if (code == nvml::kSuccess) code = api_.DeviceGetPciInfo_v3(device.handle, &pci);
    if (code != nvml::kSuccess) {
      warnings_.push_back(
          absl::StrCat("GPU ", i, " of ", count, " cannot be reached: ", library_.Describe(code)));
      continue;
    }
    device.pci_address = PciAddress(pci);
    devices_.push_back(std::move(device));
  }
}

void GpuReader::ListenForXids() {
  if (api_.EventSetCreate == nullptr || api_.DeviceRegisterEvents == nullptr ||
      api_.EventSetWait_v2 == nullptr)
    return;
  on_phase_("events");
  if (api_.EventSetCreate(&events_) != nvml::kSuccess) {
    events_ = nullptr;
    return;
  }
  bool any = false;
  for (const Device& device : devices_)
    any = api_.DeviceRegisterEvents(device.handle, nvml::kEventXid, events_) == nvml::kSuccess || any;
  // A set without a device makes every wait an error.
  if (!any) events_ = nullptr;
}

void GpuReader::CollectXids(absl::Time now) {
  if (events_ == nullptr) return;
  on_phase_("events");
  nvml::EventData event = {};
  for (int i = 0; i < kMaxEventsAtOnce && api_.EventSetWait_v2(events_, &event, 0) == nvml::kSuccess; ++i) {
    if (event.type != nvml::kEventXid) continue;
    std::deque<v1::GpuXid>& list = xids_[event.device];
    v1::GpuXid& xid = list.emplace_back();
    xid.set_xid(event.data);
    xid.mutable_time()->set_seconds(absl::ToUnixSeconds(now));
    if (list.size() > kMaxXids) list.pop_front();
  }
}

v1::GpuReport GpuReader::ReadReport() {
  v1::GpuReport report;
  on_phase_("versions");
  if (api_.SystemGetDriverVersion != nullptr)
    report.set_driver_version(ReadText(api_.SystemGetDriverVersion));
  if (api_.SystemGetNVMLVersion != nullptr) report.set_nvml_version(ReadText(api_.SystemGetNVMLVersion));
  int cuda = 0;
  if (api_.SystemGetCudaDriverVersion_v2 != nullptr &&
      api_.SystemGetCudaDriverVersion_v2(&cuda) == nvml::kSuccess)
    report.set_cuda_version(absl::StrCat(cuda / 1000, ".", cuda % 1000 / 10));
  for (const Device& device : devices_) *report.add_gpus() = ReadGpu(device);
  for (const std::string& warning : warnings_) report.add_warnings(warning);
  return report;
}

v1::Gpu GpuReader::ReadGpu(const Device& device) {
  on_phase_(absl::StrCat("facts of ", device.pci_address));
  v1::Gpu gpu;
  gpu.set_pci_address(device.pci_address);
  const auto named = [&](auto function) {
    return function == nullptr
               ? std::string()
               : ReadText([&](char* buffer, unsigned size) { return function(device.handle, buffer, size); });
  };
  gpu.set_model(named(api_.DeviceGetName));
  gpu.set_uuid(named(api_.DeviceGetUUID));
  v1::GpuFacts* facts = gpu.mutable_facts();
  ReadPcie(device.handle, facts);
  ReadNvLinks(device.handle, facts);
  ReadFields(device.handle, facts);
  ReadPeers(device, facts);
  ReadFabric(device.handle, facts);
  ReadMemory(device.handle, facts);
  for (const v1::GpuXid& xid : xids_[device.handle]) *facts->add_xids() = xid;
  return gpu;
}

void GpuReader::ReadPcie(nvml::Device device, v1::GpuFacts* facts) const {
  if (const auto value = Ask(api_.DeviceGetCurrPcieLinkWidth, device)) facts->set_pcie_width(*value);
  if (const auto value = Ask(api_.DeviceGetMaxPcieLinkWidth, device)) facts->set_pcie_max_width(*value);
  if (const auto value = Ask(api_.DeviceGetCurrPcieLinkGeneration, device))
    facts->set_pcie_generation(*value);
  if (const auto value = Ask(api_.DeviceGetMaxPcieLinkGeneration, device))
    facts->set_pcie_max_generation(*value);
  if (const auto value = Ask(api_.DeviceGetPcieReplayCounter, device)) facts->set_pcie_replay_count(*value);
}

void GpuReader::ReadNvLinks(nvml::Device device, v1::GpuFacts* facts) const {
  if (api_.DeviceGetNvLinkState == nullptr) return;
  for (unsigned link = 0; link < nvml::kMaxNvLinks; ++link) {
    unsigned enabled = 0;
    // A GPU without that link says that it is not supported, or that the argument is invalid.
    if (api_.DeviceGetNvLinkState(device, link, &enabled) != nvml::kSuccess) continue;
    v1::NvLink* out = facts->add_nvlinks();
    out->set_link(link);
    out->set_active(enabled == nvml::kEnabled);
  }
}

void GpuReader::ReadFields(nvml::Device device, v1::GpuFacts* facts) const {
  if (api_.DeviceGetFieldValues == nullptr) return;
  std::array<nvml::FieldValue, 5> fields = {};
  fields[0].id = nvml::kFieldNvLinkCrcFlitErrors;
  fields[1].id = nvml::kFieldNvLinkCrcDataErrors;
  fields[2].id = nvml::kFieldNvLinkReplayErrors;
  fields[3].id = nvml::kFieldNvLinkRecoveryErrors;
  fields[4].id = nvml::kFieldNvLinkMegabytesPerSecond;
  if (api_.DeviceGetFieldValues(device, static_cast<int>(fields.size()), fields.data()) != nvml::kSuccess)
    return;
  const auto good = [&](size_t i) { return fields[i].result == nvml::kSuccess; };
  if (good(0)) facts->set_nvlink_crc_flit_errors(FieldNumber(fields[0]));
  if (good(1)) facts->set_nvlink_crc_data_errors(FieldNumber(fields[1]));
  if (good(2)) facts->set_nvlink_replay_errors(FieldNumber(fields[2]));
  if (good(3)) facts->set_nvlink_recovery_errors(FieldNumber(fields[3]));
  // Zero where there is no link.
  if (good(4) && FieldNumber(fields[4]) > 0)
    facts->set_nvlink_megabytes_per_second(static_cast<uint32_t>(FieldNumber(fields[4])));
}

void GpuReader::ReadPeers(const Device& device, v1::GpuFacts* facts) const {
  for (const Device& other : devices_) {
    if (other.handle == device.handle) continue;
    v1::GpuPeer* peer = facts->add_peers();
    peer->set_pci_address(other.pci_address);
    const auto status = [&](unsigned index) {
      unsigned value = 0;
      const bool known =
          api_.DeviceGetP2PStatus != nullptr &&
          api_.DeviceGetP2PStatus(device.handle, other.handle, index, &value) == nvml::kSuccess;
      return known ? P2pStatusOf(value) : v1::P2P_STATUS_UNSPECIFIED;
    };
    peer->set_read(status(0));
    peer->set_write(status(1));
    peer->set_nvlink(status(2));
    peer->set_atomics(status(3));
    peer->set_pci(status(4));
    unsigned level = 0;
    if (api_.DeviceGetTopologyCommonAncestor != nullptr &&
        api_.DeviceGetTopologyCommonAncestor(device.handle, other.handle, &level) == nvml::kSuccess)
      peer->set_topology(TopologyOf(level));
  }
}

void GpuReader::ReadFabric(nvml::Device device, v1::GpuFacts* facts) const {
  nvml::FabricInfoV2 info = {};
  info.version = nvml::StructVersion<nvml::FabricInfoV2>(nvml::kFabricInfoVersion2);
  if (api_.DeviceGetGpuFabricInfoV == nullptr ||
      api_.DeviceGetGpuFabricInfoV(device, &info) != nvml::kSuccess || info.state > 3)
    return;
  v1::GpuFabric* fabric = facts->mutable_fabric();
  fabric->set_state(static_cast<v1::GpuFabricState>(info.state + 1));
  if (info.state != 3) return;
  fabric->set_status(static_cast<uint32_t>(info.status));
  fabric->set_cluster_uuid(UuidText(info.cluster_uuid));
  fabric->set_clique_id(info.clique_id);
  fabric->set_health_mask(info.health_mask);
}

void GpuReader::ReadMemory(nvml::Device device, v1::GpuFacts* facts) const {
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (api_.DeviceGetRemappedRows != nullptr &&
      api_.DeviceGetRemappedRows(device, &corrected, &uncorrected, &pending, &failed) == nvml::kSuccess) {
    facts->set_remapped_rows_corrected(corrected);
    facts->set_remapped_rows_uncorrected(uncorrected);
    facts->set_remapping_pending(pending != 0);
    facts->set_remapping_failed(failed != 0);
  }
  nvml::MemoryV1 memory = {};
  if (api_.DeviceGetMemoryInfo != nullptr && api_.DeviceGetMemoryInfo(device, &memory) == nvml::kSuccess)
    facts->set_memory_bytes(memory.total);
  unsigned mig = 0, pending_mig = 0;
  if (api_.DeviceGetMigMode != nullptr && api_.DeviceGetMigMode(device, &mig, &pending_mig) == nvml::kSuccess)
    facts->set_mig_enabled(mig == nvml::kEnabled);
}

void GpuReader::ReadProcesses(nvml::Device device, v1::GpuUse* use) const {
  const auto list = [&](auto function, auto entry) {
    std::vector<decltype(entry)> found(64);
    nvml::Return code = nvml::kInsufficientSize;
    unsigned count = 0;
    // The count may grow between two calls.
    for (int attempt = 0; attempt < 4 && code == nvml::kInsufficientSize; ++attempt) {
      count = static_cast<unsigned>(found.size());
      code = function(device, &count, found.data());
      if (code == nvml::kInsufficientSize) found.resize(std::min(count + 64, kMaxListedProcesses));
    }
    use->set_processes_known(code == nvml::kSuccess);
    if (code != nvml::kSuccess) return;
    for (unsigned i = 0; i < std::min(count, static_cast<unsigned>(found.size())); ++i) {
      if (use->processes_size() == kMaxProcesses) break;
      v1::GpuProcess* process = use->add_processes();
      process->set_pid(found[i].pid);
      if (found[i].used_memory != kUnknownMemory) process->set_memory_bytes(found[i].used_memory);
    }
  };
  if (api_.DeviceGetComputeRunningProcesses_v3 != nullptr)
    list(api_.DeviceGetComputeRunningProcesses_v3, nvml::ProcessInfo());
  else if (api_.DeviceGetComputeRunningProcesses_v2 != nullptr)
    list(api_.DeviceGetComputeRunningProcesses_v2, nvml::ProcessInfo());
  else if (api_.DeviceGetComputeRunningProcesses != nullptr)
    list(api_.DeviceGetComputeRunningProcesses, nvml::ProcessInfoV1());
}

v1::GpuActivity GpuReader::ReadActivity() {
  v1::GpuActivity activity;
  for (const Device& device : devices_) {
    on_phase_(absl::StrCat("activity of ", device.pci_address));
    v1::GpuUse* use = activity.add_gpus();
    use->set_pci_address(device.pci_address);
    ReadProcesses(device.handle, use);
    nvml::Utilization utilization = {};
    if (api_.DeviceGetUtilizationRates != nullptr &&
        api_.DeviceGetUtilizationRates(device.handle, &utilization) == nvml::kSuccess)
      use->set_utilization_percent(utilization.gpu);
    nvml::MemoryV2 memory = {};
    memory.version = nvml::StructVersion<nvml::MemoryV2>(2);
    nvml::MemoryV1 old_memory = {};
    if (api_.DeviceGetMemoryInfo_v2 != nullptr) {
      if (api_.DeviceGetMemoryInfo_v2(device.handle, &memory) == nvml::kSuccess)
        use->set_memory_used_bytes(memory.used);
    } else if (api_.DeviceGetMemoryInfo != nullptr &&
               api_.DeviceGetMemoryInfo(device.handle, &old_memory) == nvml::kSuccess) {
      use->set_memory_used_bytes(old_memory.used);
    }
  }
  return activity;
}

}  // namespace weft
