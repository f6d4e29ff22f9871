// A stand-in for libnvidia-ml.so.1, for tests alone. The file that WEFT_FAKE_NVML names says how it behaves,
// one word and its numbers a line, and is read anew at each call; without it that is NAME.so.state beside the
// library:
//   gpus 2                      how many there are
//   process 0 4711 1073741824   on GPU 0, pid, bytes
//   util 0 97                   on GPU 0, percent
//   memory 0 123                on GPU 0, bytes in use
//   xid 1 79                    on GPU 1; one event each time that the file holds a line more
//   lost 1                      GPU 1 has no handle
//   hang DeviceGetUUID          the function never returns
//   slow Init_v2 500            the function takes so many milliseconds
//   unsupported DeviceGetNvLinkState
//   init 9                      Init_v2 gives this code
// Compiled with WEFT_FAKE_OLD it lacks what old drivers lack.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "agent/inventory/gpu/nvml.h"

namespace {

using weft::nvml::Device;
using weft::nvml::EventSet;
using weft::nvml::Return;

constexpr Return kInvalidArgument = 2;
constexpr Return kNotSupported = 3;
constexpr Return kTimeout = 10;
constexpr Return kLost = 15;

using Line = std::vector<std::string>;

// Where no environment reaches it: beside the library itself.
std::string StatePath() {
  const char* path = getenv("WEFT_FAKE_NVML");
  if (path != nullptr) return path;
  Dl_info own = {};
  return dladdr(reinterpret_cast<void*>(&StatePath), &own) != 0 ? std::string(own.dli_fname) + ".state" : "";
}

std::vector<Line> Lines(const std::string& word) {
  std::vector<Line> lines;
  std::ifstream in(StatePath());
  for (std::string text; std::getline(in, text);) {
    std::istringstream words(text);
    Line line;
    for (std::string one; words >> one;) line.push_back(one);
    if (!line.empty() && line[0] == word) lines.push_back(line);
  }
  return lines;
}

unsigned long long Number(const std::string& text) { return strtoull(text.c_str(), nullptr, 10); }

unsigned Count() {
  const auto lines = Lines("gpus");
  return lines.empty() ? 1 : static_cast<unsigned>(Number(lines[0].at(1)));
}

// Handles are numbers from 1.
unsigned IndexOf(Device device) { return static_cast<unsigned>(reinterpret_cast<uintptr_t>(device)) - 1; }

// What every function does first.
Return Enter(const char* function) {
  for (const Line& line : Lines("hang"))
    if (line.at(1) == function)
      for (;;) pause();
  for (const Line& line : Lines("slow"))
    if (line.at(1) == function) usleep(static_cast<unsigned>(Number(line.at(2))) * 1000);
  for (const Line& line : Lines("unsupported"))
    if (line.at(1) == function) return kNotSupported;
  return weft::nvml::kSuccess;
}

// The number that a line "word gpu number" gives for a GPU, or `fallback`.
[[maybe_unused]] unsigned long long Given(const char* word, Device device, unsigned long long fallback) {
  for (const Line& line : Lines(word))
    if (Number(line.at(1)) == IndexOf(device)) return Number(line.at(2));
  return fallback;
}

Return Put(const char* function, unsigned* out, unsigned value) {
  *out = value;
  return Enter(function);
}

}  // namespace

#define FAKE extern "C" __attribute__((visibility("default"))) Return

FAKE nvmlInit_v2() {
  const auto lines = Lines("init");
  if (!lines.empty()) return static_cast<Return>(Number(lines[0].at(1)));
  return Enter("Init_v2");
}
FAKE nvmlDeviceGetCount_v2(unsigned* count) { return Put("DeviceGetCount_v2", count, Count()); }
FAKE nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  if (index >= Count()) return kInvalidArgument;
  for (const Line& line : Lines("lost"))
    if (Number(line.at(1)) == index) return kLost;
  *device = reinterpret_cast<Device>(static_cast<uintptr_t>(index) + 1);
  return Enter("DeviceGetHandleByIndex_v2");
}
FAKE nvmlDeviceGetPciInfo_v3(Device device, weft::nvml::PciInfo* info) {
  info->domain = 0;
  info->bus = 0x19 + IndexOf(device);
  info->device = 0;
  return Enter("DeviceGetPciInfo_v3");
}
#ifdef WEFT_FAKE_OLD
FAKE nvmlDeviceGetComputeRunningProcesses(Device device, unsigned* count, weft::nvml::ProcessInfoV1* out) {
  unsigned found = 0;
  for (const Line& line : Lines("process")) {
    if (Number(line.at(1)) != IndexOf(device)) continue;
    if (found < *count) out[found] = {static_cast<unsigned>(Number(line.at(2))), Number(line.at(3))};
    ++found;
  }
  const bool fits = found <= *count;
  *count = found;
  return fits ? weft::nvml::kSuccess : weft::nvml::kInsufficientSize;
}
#else
extern "C" __attribute__((visibility("default"))) const char* nvmlErrorString(Return code) {
  return code == 9 ? "Driver Not Loaded" : code == kLost ? "GPU is lost" : "Some Error";
}
FAKE nvmlShutdown() { return weft::nvml::kSuccess; }
FAKE nvmlSystemGetDriverVersion(char* text, unsigned size) {
  snprintf(text, size, "580.65.06");
  return Enter("SystemGetDriverVersion");
}
FAKE nvmlSystemGetNVMLVersion(char* text, unsigned size) {
  snprintf(text, size, "13.580.65.06");
  return Enter("SystemGetNVMLVersion");
}
FAKE nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return Enter("SystemGetCudaDriverVersion_v2");
}
FAKE nvmlDeviceGetName(Device, char* text, unsigned size) {
  snprintf(text, size, "NVIDIA H200");
  return Enter("DeviceGetName");
}
FAKE nvmlDeviceGetUUID(Device device, char* text, unsigned size) {
  snprintf(text, size, "GPU-0000000%u-1111-2222-3333-444444444444", IndexOf(device));
  return Enter("DeviceGetUUID");
}
FAKE nvmlDeviceGetCurrPcieLinkWidth(Device, unsigned* out) {
  return Put("DeviceGetCurrPcieLinkWidth", out, 8);
}
FAKE nvmlDeviceGetMaxPcieLinkWidth(Device, unsigned* out) {
  return Put("DeviceGetMaxPcieLinkWidth", out, 16);
}
FAKE nvmlDeviceGetCurrPcieLinkGeneration(Device, unsigned* out) {
  return Put("DeviceGetCurrPcieLinkGeneration", out, 5);
}
FAKE nvmlDeviceGetMaxPcieLinkGeneration(Device, unsigned* out) {
  return Put("DeviceGetMaxPcieLinkGeneration", out, 5);
}
FAKE nvmlDeviceGetPcieReplayCounter(Device, unsigned* out) {
  return Put("DeviceGetPcieReplayCounter", out, 3);
}
FAKE nvmlDeviceGetNvLinkState(Device, unsigned link, unsigned* enabled) {
  // Eighteen links, the last one down.
  return Put("DeviceGetNvLinkState", enabled, link == 17 ? 0 : 1);
}
FAKE nvmlDeviceGetFieldValues(Device, int count, weft::nvml::FieldValue* fields) {
  for (int i = 0; i < count; ++i) {
    fields[i].type = 3;
    fields[i].value.as_long = fields[i].id;
    fields[i].result = fields[i].id == weft::nvml::kFieldNvLinkRecoveryErrors ? kNotSupported : 0;
    if (fields[i].id == weft::nvml::kFieldNvLinkMegabytesPerSecond) {
      fields[i].type = 1;
      fields[i].value.as_long = 0;
      fields[i].value.as_unsigned = 26562;
    }
  }
  return Enter("DeviceGetFieldValues");
}
FAKE nvmlDeviceGetP2PStatus(Device, Device, unsigned index, unsigned* status) {
  return Put("DeviceGetP2PStatus", status, index == 4 ? 5 : 0);
}
FAKE nvmlDeviceGetTopologyCommonAncestor(Device, Device, unsigned* level) {
  return Put("DeviceGetTopologyCommonAncestor", level, 30);
}
FAKE nvmlDeviceGetGpuFabricInfoV(Device, weft::nvml::FabricInfoV2* info) {
  if (info->version != weft::nvml::StructVersion<weft::nvml::FabricInfoV2>(2)) return kInvalidArgument;
  memset(info->cluster_uuid, 0xab, sizeof info->cluster_uuid);
  info->status = 0;
  info->clique_id = 7;
  info->state = 3;
  info->health_mask = 0;
  return Enter("DeviceGetGpuFabricInfoV");
}
FAKE nvmlDeviceGetRemappedRows(Device, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                               unsigned* failed) {
  *corrected = 1;
  *uncorrected = 2;
  *pending = 1;
  *failed = 0;
  return Enter("DeviceGetRemappedRows");
}
FAKE nvmlDeviceGetMemoryInfo(Device, weft::nvml::MemoryV1* memory) {
  *memory = {150'000'000'000, 149'000'000'000, 1'000'000'000};
  return Enter("DeviceGetMemoryInfo");
}
FAKE nvmlDeviceGetMemoryInfo_v2(Device device, weft::nvml::MemoryV2* memory) {
  memory->total = 150'000'000'000;
  memory->used = Given("memory", device, 0);
  return Enter("DeviceGetMemoryInfo_v2");
}
FAKE nvmlDeviceGetMigMode(Device, unsigned* now, unsigned* pending) {
  *pending = 0;
  return Put("DeviceGetMigMode", now, 0);
}
FAKE nvmlDeviceGetUtilizationRates(Device device, weft::nvml::Utilization* out) {
  *out = {static_cast<unsigned>(Given("util", device, 0)), 0};
  return Enter("DeviceGetUtilizationRates");
}
FAKE nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count, weft::nvml::ProcessInfo* out) {
  unsigned found = 0;
  for (const Line& line : Lines("process")) {
    if (Number(line.at(1)) != IndexOf(device)) continue;
    if (found < *count)
      out[found] = {static_cast<unsigned>(Number(line.at(2))), Number(line.at(3)), ~0u, ~0u};
    ++found;
  }
  const bool fits = found <= *count;
  *count = found;
  if (const Return entered = Enter("DeviceGetComputeRunningProcesses_v3"); entered != 0) return entered;
  return fits ? weft::nvml::kSuccess : weft::nvml::kInsufficientSize;
}
FAKE nvmlEventSetCreate(EventSet* set) {
  *set = set;
  return Enter("EventSetCreate");
}
FAKE nvmlDeviceRegisterEvents(Device, unsigned long long, EventSet) { return Enter("DeviceRegisterEvents"); }
FAKE nvmlEventSetWait_v2(EventSet, weft::nvml::EventData* event, unsigned) {
  static size_t given = 0;
  const auto lines = Lines("xid");
  if (given >= lines.size()) return kTimeout;
  const Line& line = lines[given++];
  event->device = reinterpret_cast<Device>(static_cast<uintptr_t>(Number(line.at(1))) + 1);
  event->type = weft::nvml::kEventXid;
  event->data = Number(line.at(2));
  return weft::nvml::kSuccess;
}
#endif
