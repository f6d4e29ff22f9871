#include "agent/probes/cuda/cuda_driver.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "agent/probes/cuda/shared_library.h"
#include "base/file.h"
#include "base/text.h"

namespace weft {
namespace {

std::string LibraryName() {
  const char* const name = getenv("WEFT_CUDA_LIBRARY");
  return name != nullptr && *name != '\0' ? name : "libcuda.so.1";
}

constexpr int kPciAddressBytes = 32;
constexpr int kModelBytes = 96;
constexpr size_t kVersionBytes = 32;

}  // namespace

absl::Status CudaDriver::Resolve() {
  const absl::StatusOr<SharedLibrary> library = SharedLibrary::Open(LibraryName());
  if (!library.ok()) return library.status();
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(library->Find(symbol));
    if (function == nullptr) missing = symbol;
  };
  // The plain names of some are an older interface; those with _v2 are what cuda.h means by them.
  find(Init, "cuInit");
  find(DriverGetVersion, "cuDriverGetVersion");
  find(GetErrorName, "cuGetErrorName");
  find(GetErrorString, "cuGetErrorString");
  find(DeviceGetCount, "cuDeviceGetCount");
  find(DeviceGet, "cuDeviceGet");
  find(DeviceGetName, "cuDeviceGetName");
  find(DeviceGetPCIBusId, "cuDeviceGetPCIBusId");
  find(DeviceCanAccessPeer, "cuDeviceCanAccessPeer");
  find(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  find(CtxSetCurrent, "cuCtxSetCurrent");
  find(CtxEnablePeerAccess, "cuCtxEnablePeerAccess");
  find(MemGetInfo, "cuMemGetInfo_v2");
  find(MemAlloc, "cuMemAlloc_v2");
  find(MemFree, "cuMemFree_v2");
  find(MemHostAlloc, "cuMemHostAlloc");
  find(MemFreeHost, "cuMemFreeHost");
  find(MemHostRegister, "cuMemHostRegister_v2");
  find(MemHostUnregister, "cuMemHostUnregister");
  find(MemsetD8Async, "cuMemsetD8Async");
  find(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2");
  find(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2");
  find(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2");
  find(MemcpyPeerAsync, "cuMemcpyPeerAsync");
  find(StreamCreate, "cuStreamCreate");
  find(StreamDestroy, "cuStreamDestroy_v2");
  find(StreamQuery, "cuStreamQuery");
  find(EventCreate, "cuEventCreate");
  find(EventDestroy, "cuEventDestroy_v2");
  find(EventRecord, "cuEventRecord");
  find(EventElapsedTime, "cuEventElapsedTime");
  if (missing == nullptr) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(LibraryName(), " has no ", missing, ": its driver is too old"));
}

absl::StatusOr<std::unique_ptr<CudaDriver>> CudaDriver::Load() {
  std::unique_ptr<CudaDriver> driver(new CudaDriver);
  if (absl::Status s = driver->Resolve(); !s.ok()) return s;
  const CUresult started = driver->Init(0);
  if (started == CUDA_ERROR_NO_DEVICE) return absl::NotFoundError("the driver shows no GPU");
  if (absl::Status s = driver->Check(started, "CUDA does not start"); !s.ok()) return s;
  return driver;
}

absl::Status CudaDriver::Check(CUresult code, absl::string_view what) const {
  if (code == CUDA_SUCCESS) return absl::OkStatus();
  const char* name = nullptr;
  const char* words = nullptr;
  GetErrorName(code, &name);
  GetErrorString(code, &words);
  const std::string text =
      absl::StrCat(what, ": ", name != nullptr ? name : absl::StrCat("CUDA error ", code),
                   words != nullptr ? absl::StrCat(" (", words, ")") : "");
  return code == CUDA_ERROR_OUT_OF_MEMORY ? absl::ResourceExhaustedError(text) : absl::InternalError(text);
}

std::string CudaDriver::Version() const {
  int version = 0;
  if (DriverGetVersion(&version) != CUDA_SUCCESS) return "unknown";
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

std::string DriverVersion() {
  const absl::StatusOr<std::string> text = ReadFile("/sys/module/nvidia/version");
  return text.ok() ? CutUtf8(ToValidUtf8(absl::StripAsciiWhitespace(*text)), kVersionBytes) : "unknown";
}

absl::StatusOr<std::vector<Gpu>> OpenGpus(const CudaDriver& driver) {
  int count = 0;
  if (absl::Status s = driver.Check(driver.DeviceGetCount(&count), "cannot count GPUs"); !s.ok()) return s;
  std::vector<Gpu> gpus;
  for (int i = 0; i < count; ++i) {
    Gpu gpu;
    char pci[kPciAddressBytes] = {};
    char model[kModelBytes] = {};
    const std::string which = absl::StrCat("cannot open GPU ", i);
    if (absl::Status s = driver.Check(driver.DeviceGet(&gpu.device, i), which); !s.ok()) return s;
    if (absl::Status s = driver.Check(driver.DeviceGetPCIBusId(pci, sizeof pci, gpu.device), which); !s.ok())
      return s;
    if (absl::Status s = driver.Check(driver.DeviceGetName(model, sizeof model, gpu.device), which); !s.ok())
      return s;
    gpu.pci_address = absl::AsciiStrToLower(pci);
    gpu.model = model;
    if (absl::Status s = driver.Check(driver.DevicePrimaryCtxRetain(&gpu.context, gpu.device),
                                      absl::StrCat(which, " (", gpu.pci_address, ")"));
        !s.ok())
      return s;
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

absl::StatusOr<GpuBuffer> GpuBuffer::Allocate(const CudaDriver& driver, size_t bytes) {
  GpuBuffer buffer;
  const std::string what = absl::StrCat("cannot allocate ", bytes, " bytes of GPU memory");
  if (absl::Status s = driver.Check(driver.MemAlloc(&buffer.address_, bytes), what); !s.ok()) return s;
  buffer.driver_ = &driver;
  return buffer;
}

GpuBuffer::GpuBuffer(GpuBuffer&& other) noexcept
    : driver_(std::exchange(other.driver_, nullptr)), address_(std::exchange(other.address_, 0)) {}

GpuBuffer& GpuBuffer::operator=(GpuBuffer&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(address_, other.address_);
  return *this;
}

GpuBuffer::~GpuBuffer() {
  if (driver_ != nullptr) driver_->MemFree(address_);
}

absl::StatusOr<PinnedBuffer> PinnedBuffer::Allocate(const CudaDriver& driver, size_t bytes) {
  PinnedBuffer buffer;
  const std::string what = absl::StrCat("cannot allocate ", bytes, " bytes of pinned memory");
  if (absl::Status s =
          driver.Check(driver.MemHostAlloc(&buffer.data_, bytes, CU_MEMHOSTALLOC_PORTABLE), what);
      !s.ok())
    return s;
  buffer.driver_ = &driver;
  return buffer;
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept
    : driver_(std::exchange(other.driver_, nullptr)), data_(std::exchange(other.data_, nullptr)) {}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(data_, other.data_);
  return *this;
}

PinnedBuffer::~PinnedBuffer() {
  if (driver_ != nullptr) driver_->MemFreeHost(data_);
}

}  // namespace weft
