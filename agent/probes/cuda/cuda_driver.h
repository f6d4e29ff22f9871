// CUDA's driver interface, loaded at run time: it is there wherever a GPU's driver is, and does not tie the
// probe to a CUDA runtime. No call here blocks for as long as a GPU works; what is asynchronous is waited for
// by asking. Any of them may hang in a sick driver: call them on a thread that may be given up.
#pragma once

#include <cuda.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft {

// Any thread. The members are CUDA's functions without their prefix; names of symbols stand in the .cc.
class CudaDriver {
 public:
  // WEFT_CUDA_LIBRARY of the environment, else libcuda.so.1. kNotFound when there is no such library, it
  // lacks a function, or there is no GPU; another code when CUDA does not start (cuInit).
  static absl::StatusOr<std::unique_ptr<CudaDriver>> Load();

  // OK, or kInternal (kResourceExhausted when memory is short) with `what`, CUDA's name of the error and its
  // words.
  absl::Status Check(CUresult code, absl::string_view what) const;
  // E.g. "13.0".
  std::string Version() const;

  decltype(&cuInit) Init = nullptr;
  decltype(&cuDriverGetVersion) DriverGetVersion = nullptr;
  decltype(&cuGetErrorName) GetErrorName = nullptr;
  decltype(&cuGetErrorString) GetErrorString = nullptr;
  decltype(&cuDeviceGetCount) DeviceGetCount = nullptr;
  decltype(&cuDeviceGet) DeviceGet = nullptr;
  decltype(&cuDeviceGetName) DeviceGetName = nullptr;
  decltype(&cuDeviceGetPCIBusId) DeviceGetPCIBusId = nullptr;
  decltype(&cuDeviceCanAccessPeer) DeviceCanAccessPeer = nullptr;
  decltype(&cuDevicePrimaryCtxRetain) DevicePrimaryCtxRetain = nullptr;
  decltype(&cuCtxSetCurrent) CtxSetCurrent = nullptr;
  decltype(&cuCtxEnablePeerAccess) CtxEnablePeerAccess = nullptr;
  decltype(&cuMemGetInfo) MemGetInfo = nullptr;
  decltype(&cuMemAlloc) MemAlloc = nullptr;
  decltype(&cuMemFree) MemFree = nullptr;
  decltype(&cuMemHostAlloc) MemHostAlloc = nullptr;
  decltype(&cuMemFreeHost) MemFreeHost = nullptr;
  decltype(&cuMemHostRegister) MemHostRegister = nullptr;
  decltype(&cuMemHostUnregister) MemHostUnregister = nullptr;
  decltype(&cuMemsetD8Async) MemsetD8Async = nullptr;
  decltype(&cuMemcpyHtoDAsync) MemcpyHtoDAsync = nullptr;
  decltype(&cuMemcpyDtoHAsync) MemcpyDtoHAsync = nullptr;
  decltype(&cuMemcpyDtoDAsync) MemcpyDtoDAsync = nullptr;
  decltype(&cuMemcpyPeerAsync) MemcpyPeerAsync = nullptr;
  decltype(&cuStreamCreate) StreamCreate = nullptr;
  decltype(&cuStreamDestroy) StreamDestroy = nullptr;
  decltype(&cuStreamQuery) StreamQuery = nullptr;
  decltype(&cuEventCreate) EventCreate = nullptr;
  decltype(&cuEventDestroy) EventDestroy = nullptr;
  decltype(&cuEventRecord) EventRecord = nullptr;
  CUresult(CUDAAPI* EventElapsedTime)(float* milliseconds, CUevent start, CUevent end) = nullptr;

 private:
  CudaDriver() = default;
  absl::Status Resolve();
};

// Version of the kernel's driver, e.g. "580.95.05"; "unknown" where it does not say.
std::string DriverVersion();

// One GPU that this process may use, with its primary context held.
struct Gpu {
  CUdevice device = 0;
  CUcontext context = nullptr;
  std::string pci_address;  // lower case, e.g. "0000:1b:00.0"
  std::string model;
};

// All GPUs that are visible here, in CUDA's order, with their contexts made. Empty when there are none.
absl::StatusOr<std::vector<Gpu>> OpenGpus(const CudaDriver& driver);

// Memory on the current context's device, or pinned memory of the host, that frees itself. One thread.
class GpuBuffer {
 public:
  GpuBuffer() = default;
  static absl::StatusOr<GpuBuffer> Allocate(const CudaDriver& driver, size_t bytes);
  GpuBuffer(GpuBuffer&& other) noexcept;
  GpuBuffer& operator=(GpuBuffer&& other) noexcept;
  ~GpuBuffer();
  CUdeviceptr address() const { return address_; }

 private:
  const CudaDriver* driver_ = nullptr;
  CUdeviceptr address_ = 0;
};

class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  static absl::StatusOr<PinnedBuffer> Allocate(const CudaDriver& driver, size_t bytes);
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
  ~PinnedBuffer();
  void* data() const { return data_; }

 private:
  const CudaDriver* driver_ = nullptr;
  void* data_ = nullptr;
};

}  // namespace weft
