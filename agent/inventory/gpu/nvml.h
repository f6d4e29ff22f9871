// The few parts of NVML's binary interface that Weft uses, and how to open the library at run time. Layouts
// and numbers are those of NVML's documented interface, stable since the version that each function's suffix
// names.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft::nvml {

using Device = void*;
using EventSet = void*;
using Return = int;

inline constexpr Return kSuccess = 0;
inline constexpr Return kInsufficientSize = 7;
inline constexpr unsigned kEnabled = 1;  // nvmlEnableState_t
inline constexpr unsigned kMaxNvLinks = 18;
inline constexpr unsigned long long kEventXid = 0x8;
inline constexpr unsigned kFabricInfoVersion2 = 2;

// Field ids of DeviceGetFieldValues.
inline constexpr unsigned kFieldNvLinkCrcFlitErrors = 38;
inline constexpr unsigned kFieldNvLinkCrcDataErrors = 45;
inline constexpr unsigned kFieldNvLinkReplayErrors = 52;
inline constexpr unsigned kFieldNvLinkRecoveryErrors = 59;
inline constexpr unsigned kFieldNvLinkMegabytesPerSecond = 90;
inline constexpr unsigned kFieldNvLinkCount = 91;

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device;
  unsigned device_id, subsystem_id;
  char bus_id[32];
};
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_memory;  // all ones: not known
  unsigned gpu_instance, compute_instance;
};
struct ProcessInfoV1 {
  unsigned pid;
  unsigned long long used_memory;
};
struct Utilization {
  unsigned gpu, memory;  // percent
};
struct MemoryV1 {
  unsigned long long total, free, used;  // `used` with what the driver reserves
};
struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
struct FieldValue {
  unsigned id, scope;
  long long timestamp, latency;
  unsigned type;  // 0 double, 1 unsigned, 2 unsigned long, 3 unsigned long long, 4 long long
  Return result;
  union {
    double as_double;
    unsigned as_unsigned;
    unsigned long long as_long;
  } value;
};
struct FabricInfoV2 {
  unsigned version;
  unsigned char cluster_uuid[16];
  Return status;
  unsigned clique_id;
  unsigned char state;  // 0 not supported, 1 not started, 2 in progress, 3 completed
  unsigned health_mask;
};
struct EventData {
  Device device;
  unsigned long long type;
  unsigned long long data;  // the XID
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(PciInfo) == 68 && sizeof(ProcessInfo) == 24 && sizeof(ProcessInfoV1) == 16);
static_assert(sizeof(FieldValue) == 40 && sizeof(FabricInfoV2) == 36 && sizeof(EventData) == 32);
static_assert(sizeof(MemoryV1) == 24 && sizeof(MemoryV2) == 40);

// NVML's way of versioning structures.
template <typename T>
constexpr unsigned StructVersion(unsigned version) {
  return static_cast<unsigned>(sizeof(T)) | (version << 24);
}

// Functions under NVML's own names without "nvml"; null where the library does not have them.
struct Api {
  Return (*Init_v2)();
  Return (*Shutdown)();
  const char* (*ErrorString)(Return);
  Return (*SystemGetDriverVersion)(char*, unsigned);
  Return (*SystemGetNVMLVersion)(char*, unsigned);
  Return (*SystemGetCudaDriverVersion_v2)(int*);
  Return (*DeviceGetCount_v2)(unsigned*);
  Return (*DeviceGetHandleByIndex_v2)(unsigned, Device*);
  Return (*DeviceGetPciInfo_v3)(Device, PciInfo*);
  Return (*DeviceGetName)(Device, char*, unsigned);
  Return (*DeviceGetUUID)(Device, char*, unsigned);
  Return (*DeviceGetCurrPcieLinkWidth)(Device, unsigned*);
  Return (*DeviceGetMaxPcieLinkWidth)(Device, unsigned*);
  Return (*DeviceGetCurrPcieLinkGeneration)(Device, unsigned*);
  Return (*DeviceGetMaxPcieLinkGeneration)(Device, unsigned*);
  Return (*DeviceGetPcieReplayCounter)(Device, unsigned*);
  Return (*DeviceGetNvLinkState)(Device, unsigned link, unsigned* enabled);
  Return (*DeviceGetFieldValues)(Device, int, FieldValue*);
  Return (*DeviceGetP2PStatus)(Device, Device, unsigned index, unsigned* status);
  Return (*DeviceGetTopologyCommonAncestor)(Device, Device, unsigned*);
  Return (*DeviceGetGpuFabricInfoV)(Device, FabricInfoV2*);
  Return (*DeviceGetRemappedRows)(Device, unsigned*, unsigned*, unsigned*, unsigned*);
  Return (*DeviceGetMemoryInfo)(Device, MemoryV1*);
  Return (*DeviceGetMemoryInfo_v2)(Device, MemoryV2*);
  Return (*DeviceGetMigMode)(Device, unsigned* now, unsigned* pending);
  Return (*DeviceGetUtilizationRates)(Device, Utilization*);
  Return (*DeviceGetComputeRunningProcesses_v3)(Device, unsigned*, ProcessInfo*);
  Return (*DeviceGetComputeRunningProcesses_v2)(Device, unsigned*, ProcessInfo*);
  Return (*DeviceGetComputeRunningProcesses)(Device, unsigned*, ProcessInfoV1*);
  Return (*EventSetCreate)(EventSet*);
  Return (*DeviceRegisterEvents)(Device, unsigned long long types, EventSet);
  Return (*EventSetWait_v2)(EventSet, EventData*, unsigned timeout_ms);
};

// An opened and started NVML. One thread. Any call may hang for as long as the driver does.
class Library {
 public:
  // `path` as dlopen takes it. kNotFound when there is no such library, kUnimplemented when it lacks what
  // nothing works without, kUnavailable with NVML's words when it does not start.
  static absl::StatusOr<std::unique_ptr<Library>> Open(const std::string& path);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const Api& api() const { return api_; }
  // NVML's words for a code.
  std::string Describe(Return code) const;

 private:
  explicit Library(void* handle) : handle_(handle) {}
  void LoadAll();

  void* handle_;
  bool started_ = false;
  Api api_ = {};
};

}  // namespace weft::nvml
