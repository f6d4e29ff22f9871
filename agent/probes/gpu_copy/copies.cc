#include "agent/probes/gpu_copy/copies.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/probes/gpu_copy/host_memory.h"

namespace weft::gpu_copy {
namespace {

constexpr uint64_t kDefaultBytes = 256ULL << 20;
constexpr uint32_t kDefaultIterations = 20;
constexpr uint32_t kWarmUp = 2;
constexpr size_t kCheckBytes = 4096;
constexpr long kPollNs = 50'000;

// One GPU's means to copy.
struct Engine {
  Gpu gpu;
  CUstream stream = nullptr;
  CUevent start = nullptr;
  CUevent end = nullptr;
  GpuBuffer source;
  GpuBuffer target;
};

class Bench {
 public:
  Bench(const CudaDriver& cuda, const v1::GpuCopyProbe& probe, const std::atomic<bool>& stop,
        const std::function<void(const std::string&)>& on_copy)
      : cuda_(cuda),
        bytes_(probe.bytes() != 0 ? probe.bytes() : kDefaultBytes),
        iterations_(probe.iterations() != 0 ? probe.iterations() : kDefaultIterations),
        stop_(stop),
        on_copy_(on_copy) {}

  absl::Status Open();
  absl::Status WithinGpus();
  absl::Status WithHost();
  absl::Status BetweenGpus();
  Copies Take();

 private:
  // Enqueues one copy on an engine's stream.
  using Copy = std::function<CUresult(CUstream stream)>;

  absl::Status OpenEngine(Engine* engine);
  absl::Status Wait(const Engine& engine) const;
  absl::Status Fill(const Engine& engine, CUdeviceptr memory, uint8_t value) const;
  absl::Status CheckGpu(const Engine& engine, CUdeviceptr memory, uint8_t value,
                        const std::string& pair) const;
  absl::Status CheckHost(const void* memory, uint8_t value, const std::string& pair) const;
  absl::Status Measure(const Engine& engine, const std::string& pair, const Copy& copy);
  absl::Status WithNode(std::optional<int> node);
  absl::Status WithPinned(const Engine& engine, void* host, const std::string& host_name);
  absl::Status Between(const Engine& from, const Engine& to);
  // Another one each time, so that nothing old passes the check.
  uint8_t NextValue() { return value_ = static_cast<uint8_t>(value_ % 250 + 1); }

  const CudaDriver& cuda_;
  const uint64_t bytes_;
  const uint32_t iterations_;
  const std::atomic<bool>& stop_;
  const std::function<void(const std::string&)>& on_copy_;
  std::vector<Engine> engines_;
  uint8_t value_ = 0;
  Copies copies_;
};

absl::Status Bench::OpenEngine(Engine* engine) {
  if (absl::Status s = cuda_.Check(cuda_.CtxSetCurrent(engine->gpu.context), "cuCtxSetCurrent"); !s.ok())
    return s;
  if (absl::Status s =
          cuda_.Check(cuda_.StreamCreate(&engine->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
      !s.ok())
    return s;
  for (CUevent* event : {&engine->start, &engine->end})
    if (absl::Status s = cuda_.Check(cuda_.EventCreate(event, CU_EVENT_DEFAULT), "cuEventCreate"); !s.ok())
      return s;
  for (GpuBuffer* buffer : {&engine->source, &engine->target}) {
    absl::StatusOr<GpuBuffer> memory = GpuBuffer::Allocate(cuda_, bytes_);
    if (!memory.ok()) return memory.status();
    *buffer = *std::move(memory);
  }
  return absl::OkStatus();
}

absl::Status Bench::Open() {
  absl::StatusOr<std::vector<Gpu>> gpus = OpenGpus(cuda_);
  if (!gpus.ok()) return gpus.status();
  if (gpus->empty()) return absl::NotFoundError("no GPU is visible to the probe");
  for (Gpu& gpu : *gpus) {
    Engine& engine = engines_.emplace_back();
    engine.gpu = std::move(gpu);
    if (absl::Status s = OpenEngine(&engine); !s.ok()) return s;
  }
  copies_.stack_fingerprint = absl::StrCat("weft-gpu-copy/", kFormulaVersion, " cuda/", cuda_.Version(),
                                           " driver/", DriverVersion(), " ", engines_.front().gpu.model);
  return absl::OkStatus();
}

absl::Status Bench::Wait(const Engine& engine) const {
  CUresult state;
  while ((state = cuda_.StreamQuery(engine.stream)) == CUDA_ERROR_NOT_READY) {
    if (stop_) return absl::CancelledError("stopped");
    const timespec pause = {0, kPollNs};
    nanosleep(&pause, nullptr);
  }
  return cuda_.Check(state, engine.gpu.pci_address);
}

absl::Status Bench::Fill(const Engine& engine, CUdeviceptr memory, uint8_t value) const {
  if (absl::Status s = cuda_.Check(cuda_.CtxSetCurrent(engine.gpu.context), "cuCtxSetCurrent"); !s.ok())
    return s;
  if (absl::Status s =
          cuda_.Check(cuda_.MemsetD8Async(memory, value, bytes_, engine.stream), "cuMemsetD8Async");
      !s.ok())
    return s;
  return Wait(engine);
}

absl::Status Bench::CheckHost(const void* memory, uint8_t value, const std::string& pair) const {
  const auto* const bytes = static_cast<const uint8_t*>(memory);
  const bool same = std::all_of(bytes, bytes + kCheckBytes, [value](uint8_t b) { return b == value; });
  return same ? absl::OkStatus()
              : absl::DataLossError(absl::StrCat("the copy ", pair, " brought wrong data"));
}

absl::Status Bench::CheckGpu(const Engine& engine, CUdeviceptr memory, uint8_t value,
                             const std::string& pair) const {
  absl::StatusOr<PinnedBuffer> seen = PinnedBuffer::Allocate(cuda_, kCheckBytes);
  if (!seen.ok()) return seen.status();
  if (absl::Status s = cuda_.Check(cuda_.CtxSetCurrent(engine.gpu.context), "cuCtxSetCurrent"); !s.ok())
    return s;
  for (const uint64_t offset : {uint64_t{0}, (bytes_ - kCheckBytes) / 2, bytes_ - kCheckBytes}) {
    if (absl::Status s =
            cuda_.Check(cuda_.MemcpyDtoHAsync(seen->data(), memory + offset, kCheckBytes, engine.stream),
                        "cuMemcpyDtoHAsync");
        !s.ok())
      return s;
    if (absl::Status s = Wait(engine); !s.ok()) return s;
    if (absl::Status s = CheckHost(seen->data(), value, pair); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status Bench::Measure(const Engine& engine, const std::string& pair, const Copy& copy) {
  if (stop_) return absl::CancelledError("stopped");
  if (absl::Status s = cuda_.Check(cuda_.CtxSetCurrent(engine.gpu.context), "cuCtxSetCurrent"); !s.ok())
    return s;
  for (uint32_t i = 0; i < kWarmUp + iterations_; ++i) {
    if (i == kWarmUp)
      if (absl::Status s = cuda_.Check(cuda_.EventRecord(engine.start, engine.stream), "cuEventRecord");
          !s.ok())
        return s;
    if (absl::Status s = cuda_.Check(copy(engine.stream), pair); !s.ok()) return s;
  }
  if (absl::Status s = cuda_.Check(cuda_.EventRecord(engine.end, engine.stream), "cuEventRecord"); !s.ok())
    return s;
  if (absl::Status s = Wait(engine); !s.ok()) return s;
  float milliseconds = 0;
  if (absl::Status s =
          cuda_.Check(cuda_.EventElapsedTime(&milliseconds, engine.start, engine.end), "cuEventElapsedTime");
      !s.ok())
    return s;
  const double seconds = std::max(static_cast<double>(milliseconds) / 1e3, 1e-9);
  v1::Measurement& m = copies_.measurements.emplace_back();
  m.set_metric(v1::METRIC_COPY_BANDWIDTH);
  m.set_device(pair);
  m.set_message_size_bytes(bytes_);
  m.set_iterations(iterations_);
  m.set_moved_bytes(bytes_ * iterations_);
  m.set_elapsed_seconds(seconds);
  m.set_value(static_cast<double>(bytes_ * iterations_) / seconds);
  return absl::OkStatus();
}

absl::Status Bench::WithinGpus() {
  for (const Engine& engine : engines_) {
    const std::string pair = absl::StrCat(engine.gpu.pci_address, ">", engine.gpu.pci_address);
    on_copy_(pair);
    const CUdeviceptr from = engine.source.address(), to = engine.target.address();
    const uint8_t value = NextValue();
    if (absl::Status s = Fill(engine, from, value); !s.ok()) return s;
    if (absl::Status s = Measure(
            engine, pair, [&](CUstream stream) { return cuda_.MemcpyDtoDAsync(to, from, bytes_, stream); });
        !s.ok())
      return s;
    if (absl::Status s = CheckGpu(engine, to, value, pair); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status Bench::WithPinned(const Engine& engine, void* host, const std::string& host_name) {
  const CUdeviceptr memory = engine.target.address();
  const std::string up = absl::StrCat(host_name, ">", engine.gpu.pci_address);
  const std::string down = absl::StrCat(engine.gpu.pci_address, ">", host_name);
  on_copy_(up);
  const uint8_t value = NextValue();
  std::memset(host, value, bytes_);
  if (absl::Status s = Measure(
          engine, up, [&](CUstream stream) { return cuda_.MemcpyHtoDAsync(memory, host, bytes_, stream); });
      !s.ok())
    return s;
  if (absl::Status s = CheckGpu(engine, memory, value, up); !s.ok()) return s;
  on_copy_(down);
  const uint8_t back = NextValue();
  if (absl::Status s = Fill(engine, memory, back); !s.ok()) return s;
  if (absl::Status s = Measure(
          engine, down, [&](CUstream stream) { return cuda_.MemcpyDtoHAsync(host, memory, bytes_, stream); });
      !s.ok())
    return s;
  const auto* const last = static_cast<uint8_t*>(host) + bytes_ - kCheckBytes;
  if (absl::Status s = CheckHost(host, back, down); !s.ok()) return s;
  return CheckHost(last, back, down);
}

absl::Status Bench::WithNode(std::optional<int> node) {
  const absl::StatusOr<HostMemory> memory = HostMemory::Allocate(bytes_, node);
  if (!memory.ok()) return memory.status();
  const std::string name = node ? absl::StrCat("numa", *node) : "host";
  if (absl::Status s = cuda_.Check(cuda_.CtxSetCurrent(engines_.front().gpu.context), "cuCtxSetCurrent");
      !s.ok())
    return s;
  if (absl::Status s =
          cuda_.Check(cuda_.MemHostRegister(memory->data(), memory->size(), CU_MEMHOSTREGISTER_PORTABLE),
                      absl::StrCat("cannot pin memory of ", name));
      !s.ok())
    return s;
  absl::Status status;
  for (const Engine& engine : engines_)
    if (status.ok()) status = WithPinned(engine, memory->data(), name);
  // Not while copies may be under way: a stop ends the process anyway.
  if (!absl::IsCancelled(status)) cuda_.MemHostUnregister(memory->data());
  return status;
}

absl::Status Bench::WithHost() {
  const std::vector<int> nodes = NodesWithMemory();
  for (const int node : nodes) {
    const absl::Status status = WithNode(node);
    if (absl::IsPermissionDenied(status)) {
      copies_.notes.push_back(
          absl::StrCat(status.message(), "; memory from anywhere was measured instead, as \"host\""));
      return WithNode(std::nullopt);
    }
    if (!status.ok()) return status;
  }
  return nodes.empty() ? WithNode(std::nullopt) : absl::OkStatus();
}

absl::Status Bench::Between(const Engine& from, const Engine& to) {
  int direct = 0;
  if (absl::Status s = cuda_.Check(cuda_.DeviceCanAccessPeer(&direct, to.gpu.device, from.gpu.device),
                                   "cuDeviceCanAccessPeer");
      !s.ok())
    return s;
  // Through host memory it works too, and is another number.
  const std::string pair =
      absl::StrCat(from.gpu.pci_address, ">", to.gpu.pci_address, direct ? "" : " staged");
  on_copy_(pair);
  if (direct)
    for (const auto& [self, peer] : {std::pair(&from, &to), std::pair(&to, &from)}) {
      cuda_.CtxSetCurrent(self->gpu.context);
      const CUresult enabled = cuda_.CtxEnablePeerAccess(peer->gpu.context, 0);
      if (enabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) continue;
      if (absl::Status s = cuda_.Check(enabled, absl::StrCat("peer access for ", pair)); !s.ok()) return s;
    }
  const uint8_t value = NextValue();
  if (absl::Status s = Fill(from, from.source.address(), value); !s.ok()) return s;
  if (absl::Status s = Measure(from, pair,
                               [&](CUstream stream) {
                                 return cuda_.MemcpyPeerAsync(to.target.address(), to.gpu.context,
                                                              from.source.address(), from.gpu.context, bytes_,
                                                              stream);
                               });
      !s.ok())
    return s;
  return CheckGpu(to, to.target.address(), value, pair);
}

absl::Status Bench::BetweenGpus() {
  for (const Engine& from : engines_)
    for (const Engine& to : engines_)
      if (&from != &to)
        if (absl::Status s = Between(from, to); !s.ok()) return s;
  return absl::OkStatus();
}

Copies Bench::Take() { return std::move(copies_); }

}  // namespace

absl::StatusOr<Copies> MeasureCopies(const v1::GpuCopyProbe& probe, const std::atomic<bool>& stop,
                                     const std::function<void(const std::string& pair)>& on_copy) {
  const absl::StatusOr<std::unique_ptr<CudaDriver>> cuda = CudaDriver::Load();
  if (!cuda.ok()) return cuda.status();
  Bench bench(**cuda, probe, stop, on_copy);
  if (absl::Status s = bench.Open(); !s.ok()) return s;
  if (!probe.skip_device_to_device())
    if (absl::Status s = bench.WithinGpus(); !s.ok()) return s;
  if (!probe.skip_host())
    if (absl::Status s = bench.WithHost(); !s.ok()) return s;
  if (!probe.skip_peer())
    if (absl::Status s = bench.BetweenGpus(); !s.ok()) return s;
  Copies copies = bench.Take();
  if (copies.measurements.empty())
    return absl::NotFoundError("copies between GPUs need two of them; there is one");
  return copies;
}

}  // namespace weft::gpu_copy
