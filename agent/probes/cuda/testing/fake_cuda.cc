// A stand-in for libcuda.so.1 in tests: GPUs are threads and host memory. Built as a library of that name
// into a folder of its own.
//   WEFT_FAKE_GPUS       number of GPUs, default 1
//   WEFT_FAKE_GPU_BYTES  memory of each, default 1 GiB
//   WEFT_FAKE_GPU_FAULT  "hang_init": cuInit never returns; "hang_copy": copies on a device never end;
//   "wrong_copy":
//                        they change their first byte
#include <cuda.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

struct CUctx_st {
  int device;
};

struct CUevent_st {
  std::atomic<int64_t> ns{0};
};

// Work in order, on a thread of its own.
struct CUstream_st {
  CUstream_st() : thread([this] { Loop(); }) {}
  ~CUstream_st() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      quit = true;
    }
    changed.notify_all();
    thread.join();
  }
  void Add(std::function<void()> work) {
    std::lock_guard<std::mutex> lock(mutex);
    queue.push_back(std::move(work));
    ++open;
    changed.notify_all();
  }
  bool idle() {
    std::lock_guard<std::mutex> lock(mutex);
    return open == 0;
  }

 private:
  void Loop() {
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return quit || !queue.empty(); });
      if (queue.empty()) return;
      std::function<void()> work = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      work();
      lock.lock();
      --open;
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  size_t open = 0;
  bool quit = false;
  std::thread thread;
};

namespace {

int64_t Number(const char* name, int64_t fallback) {
  const char* const text = std::getenv(name);
  return text != nullptr && *text != '\0' ? std::atoll(text) : fallback;
}

int Count() { return static_cast<int>(Number("WEFT_FAKE_GPUS", 1)); }

CUctx_st* Context(int device) {
  static std::vector<CUctx_st>* const contexts = [] {
    auto* all = new std::vector<CUctx_st>;
    for (int i = 0; i < Count(); ++i) all->push_back({i});
    return all;
  }();
  return &(*contexts)[static_cast<size_t>(device)];
}

thread_local CUcontext current = nullptr;

std::atomic<int64_t> allocated{0};

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void* Pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

bool Has(const char* kind) {
  const char* const fault = std::getenv("WEFT_FAKE_GPU_FAULT");
  return fault != nullptr && std::string(fault) == kind;
}

CUresult Copy(void* to, const void* from, size_t bytes, CUstream stream) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  stream->Add([=] { std::memcpy(to, from, bytes); });
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

// For the fake NCCL.
void WeftFakeEnqueue(CUstream stream, void (*function)(void*), void* argument) {
  stream->Add([=] { function(argument); });
}
int WeftFakeCurrentDevice() { return current == nullptr ? -1 : current->device; }

CUresult cuInit(unsigned) {
  while (Has("hang_init")) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return Count() == 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult, const char** text) {
  *text = "CUDA_ERROR_FAKE";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult code, const char** text) {
  *text = code == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "something failed";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = Count();
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  std::snprintf(name, static_cast<size_t>(size), "Fake GPU");
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetPCIBusId(char* text, int size, CUdevice device) {
  std::snprintf(text, static_cast<size_t>(size), "0000:%02X:00.0", 0x1a + device);
  return CUDA_SUCCESS;
}
CUresult cuDeviceCanAccessPeer(int* can, CUdevice a, CUdevice b) {
  *can = a != b;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = Context(device);
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned) { return CUDA_SUCCESS; }
CUresult cuMemGetInfo(size_t* free_bytes, size_t* total) {
  *total = static_cast<size_t>(Number("WEFT_FAKE_GPU_BYTES", 1 << 30));
  *free_bytes = *total - static_cast<size_t>(allocated.load());
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (static_cast<int64_t>(bytes) > Number("WEFT_FAKE_GPU_BYTES", 1 << 30)) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(std::malloc(bytes));
  return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr address) {
  std::free(Pointer(address));
  return CUDA_SUCCESS;
}
CUresult cuMemHostAlloc(void** data, size_t bytes, unsigned) {
  *data = std::malloc(bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemFreeHost(void* data) {
  std::free(data);
  return CUDA_SUCCESS;
}
CUresult cuMemHostRegister(void*, size_t, unsigned) { return CUDA_SUCCESS; }
CUresult cuMemHostUnregister(void*) { return CUDA_SUCCESS; }
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  stream->Add([=] { std::memset(Pointer(to), value, bytes); });
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return Copy(Pointer(to), from, bytes, stream);
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Copy(to, Pointer(from), bytes, stream);
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  stream->Add([=] {
    while (Has("hang_copy")) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  });
  const CUresult result = Copy(Pointer(to), Pointer(from), bytes, stream);
  if (Has("wrong_copy")) stream->Add([=] { *static_cast<unsigned char*>(Pointer(to)) ^= 1; });
  return result;
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes,
                           CUstream stream) {
  return Copy(Pointer(to), Pointer(from), bytes, stream);
}
CUresult cuStreamCreate(CUstream* stream, unsigned) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *stream = new CUstream_st;
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream stream) {
  delete stream;
  return CUDA_SUCCESS;
}
CUresult cuStreamQuery(CUstream stream) { return stream->idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; }
CUresult cuEventCreate(CUevent* event, unsigned) {
  *event = new CUevent_st;
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent event) {
  delete event;
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  stream->Add([event] { event->ns = NowNs(); });
  return CUDA_SUCCESS;
}
// cuda.h of version 13 gives this name another symbol; the probe asks for this one.
CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  *milliseconds = static_cast<float>(end->ns - start->ns) / 1e6F;
  return CUDA_SUCCESS;
}

}  // extern "C"
