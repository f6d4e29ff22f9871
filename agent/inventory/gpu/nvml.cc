#include "agent/inventory/gpu/nvml.h"

#include <dlfcn.h>

#include <type_traits>

#include "absl/strings/str_cat.h"

namespace weft::nvml {

void Library::LoadAll() {
  const auto load = [this](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(handle_, name));
  };
#define WEFT_NVML_LOAD(name) load("nvml" #name, &api_.name)
  WEFT_NVML_LOAD(Init_v2);
  WEFT_NVML_LOAD(Shutdown);
  WEFT_NVML_LOAD(ErrorString);
  WEFT_NVML_LOAD(SystemGetDriverVersion);
  WEFT_NVML_LOAD(SystemGetNVMLVersion);
  WEFT_NVML_LOAD(SystemGetCudaDriverVersion_v2);
  WEFT_NVML_LOAD(DeviceGetCount_v2);
  WEFT_NVML_LOAD(DeviceGetHandleByIndex_v2);
  WEFT_NVML_LOAD(DeviceGetPciInfo_v3);
  WEFT_NVML_LOAD(DeviceGetName);
  WEFT_NVML_LOAD(DeviceGetUUID);
  WEFT_NVML_LOAD(DeviceGetCurrPcieLinkWidth);
  WEFT_NVML_LOAD(DeviceGetMaxPcieLinkWidth);
  WEFT_NVML_LOAD(DeviceGetCurrPcieLinkGeneration);
  WEFT_NVML_LOAD(DeviceGetMaxPcieLinkGeneration);
  WEFT_NVML_LOAD(DeviceGetPcieReplayCounter);
  WEFT_NVML_LOAD(DeviceGetNvLinkState);
  WEFT_NVML_LOAD(DeviceGetFieldValues);
  WEFT_NVML_LOAD(DeviceGetP2PStatus);
  WEFT_NVML_LOAD(DeviceGetTopologyCommonAncestor);
  WEFT_NVML_LOAD(DeviceGetGpuFabricInfoV);
  WEFT_NVML_LOAD(DeviceGetRemappedRows);
  WEFT_NVML_LOAD(DeviceGetMemoryInfo);
  WEFT_NVML_LOAD(DeviceGetMemoryInfo_v2);
  WEFT_NVML_LOAD(DeviceGetMigMode);
  WEFT_NVML_LOAD(DeviceGetUtilizationRates);
  WEFT_NVML_LOAD(DeviceGetComputeRunningProcesses_v3);
  WEFT_NVML_LOAD(DeviceGetComputeRunningProcesses_v2);
  WEFT_NVML_LOAD(DeviceGetComputeRunningProcesses);
  WEFT_NVML_LOAD(EventSetCreate);
  WEFT_NVML_LOAD(DeviceRegisterEvents);
  WEFT_NVML_LOAD(EventSetWait_v2);
#undef WEFT_NVML_LOAD
}

absl::StatusOr<std::unique_ptr<Library>> Library::Open(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return absl::NotFoundError(absl::StrCat("NVML is not here: ", why == nullptr ? path.c_str() : why));
  }
  std::unique_ptr<Library> library(new Library(handle));
  library->LoadAll();
  const Api& api = library->api_;
  if (api.Init_v2 == nullptr || api.DeviceGetCount_v2 == nullptr ||
      api.DeviceGetHandleByIndex_v2 == nullptr || api.DeviceGetPciInfo_v3 == nullptr)
    return absl::UnimplementedError(
        absl::StrCat("NVML in ", path,
                     " is too old: it lacks nvmlInit_v2, nvmlDeviceGetCount_v2, "
                     "nvmlDeviceGetHandleByIndex_v2 or nvmlDeviceGetPciInfo_v3; upgrade the driver"));
  const Return started = api.Init_v2();
  if (started != kSuccess)
    return absl::UnavailableError(absl::StrCat("NVML does not start: ", library->Describe(started)));
  library->started_ = true;
  return library;
}

Library::~Library() {
  if (started_ && api_.Shutdown != nullptr) api_.Shutdown();
  dlclose(handle_);
}

std::string Library::Describe(Return code) const {
  const char* words = api_.ErrorString == nullptr ? nullptr : api_.ErrorString(code);
  return words == nullptr ? absl::StrCat("NVML error ", code) : std::string(words);
}

}  // namespace weft::nvml
