#include "agent/probes/nccl/device_ranks.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/probes/process/ticks.h"

namespace weft::nccl {
namespace {

constexpr int64_t kPollPause = 50 * kMicrosecond;
constexpr int64_t kCommCheckInterval = kMillisecond;

ncclDataType_t NcclType(v1::NcclDataType type) {
  switch (type) {
    case v1::NCCL_DATA_TYPE_FLOAT16:
      return ncclFloat16;
    case v1::NCCL_DATA_TYPE_BFLOAT16:
      return ncclBfloat16;
    case v1::NCCL_DATA_TYPE_FLOAT64:
      return ncclFloat64;
    case v1::NCCL_DATA_TYPE_INT8:
      return ncclInt8;
    case v1::NCCL_DATA_TYPE_INT32:
      return ncclInt32;
    default:
      return ncclFloat32;
  }
}

void Pause(int64_t ticks) {
  const timespec pause = {0, ticks};
  nanosleep(&pause, nullptr);
}

absl::Status Stopped() { return absl::CancelledError("stopped"); }

void* Pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

}  // namespace

uint32_t Ranks::total() const { return first(static_cast<uint32_t>(gpus.size())); }

uint32_t Ranks::first(uint32_t participant_number) const {
  return std::accumulate(gpus.begin(), gpus.begin() + participant_number, 0U);
}

absl::StatusOr<std::unique_ptr<DeviceRanks>> DeviceRanks::Open(const Parameters& parameters,
                                                               const std::atomic<bool>& stop) {
  std::unique_ptr<DeviceRanks> ranks(new DeviceRanks(stop));
  ranks->parameters_ = parameters;
  absl::StatusOr<std::unique_ptr<CudaDriver>> cuda = CudaDriver::Load();
  if (!cuda.ok()) return cuda.status();
  ranks->cuda_ = *std::move(cuda);
  absl::StatusOr<std::unique_ptr<NcclLibrary>> nccl = NcclLibrary::Load();
  if (!nccl.ok()) return nccl.status();
  ranks->nccl_ = *std::move(nccl);
  absl::StatusOr<std::vector<Gpu>> gpus = OpenGpus(*ranks->cuda_);
  if (!gpus.ok()) return gpus.status();
  if (gpus->empty()) return absl::NotFoundError("no GPU is visible to the probe");
  ranks->gpus_ = *std::move(gpus);
  return ranks;
}

absl::StatusOr<std::vector<std::string>> DeviceRanks::MakeUniqueIds() const {
  // NCCL asks for the current device at times.
  if (absl::Status s = Enter(0); !s.ok()) return s;
  std::vector<std::string> ids(parameters_.rail_split ? gpus_.size() : 1);
  for (std::string& text : ids) {
    ncclUniqueId id;
    if (absl::Status s = nccl_->Check(nccl_->GetUniqueId(&id), "ncclGetUniqueId"); !s.ok()) return s;
    text.assign(id.internal, sizeof id.internal);
  }
  return ids;
}

absl::Status DeviceRanks::Enter(size_t index) const {
  return cuda_->Check(cuda_->CtxSetCurrent(gpus_[index].context), "cuCtxSetCurrent");
}

absl::Status DeviceRanks::PrepareRank(size_t index, uint64_t send_bytes, uint64_t receive_bytes) {
  Rank& rank = ranks_[index];
  if (absl::Status s = Enter(index); !s.ok()) return s;
  if (absl::Status s =
          cuda_->Check(cuda_->StreamCreate(&rank.stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
      !s.ok())
    return s;
  for (CUevent* event : {&rank.start, &rank.end})
    if (absl::Status s = cuda_->Check(cuda_->EventCreate(event, CU_EVENT_DEFAULT), "cuEventCreate"); !s.ok())
      return s;
  for (auto [buffer, bytes] : {std::pair(&rank.send, send_bytes), std::pair(&rank.receive, receive_bytes)}) {
    absl::StatusOr<GpuBuffer> memory = GpuBuffer::Allocate(*cuda_, bytes);
    if (!memory.ok())
      return absl::Status(memory.status().code(),
                          absl::StrCat(memory.status().message(), " on ", gpus_[index].pci_address));
    *buffer = *std::move(memory);
    // Some value that is neither huge nor subnormal in any type.
    if (absl::Status s = cuda_->Check(cuda_->MemsetD8Async(buffer->address(), 0x3c, bytes, rank.stream),
                                      "cuMemsetD8Async");
        !s.ok())
      return s;
  }
  return WaitForStream(rank.stream);
}

absl::Status DeviceRanks::StartCommunicators(const std::vector<std::string>& unique_ids) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  if (absl::Status s = nccl_->Check(nccl_->GroupStart(), "ncclGroupStart"); !s.ok()) return s;
  absl::Status status;
  for (size_t i = 0; i < ranks_.size() && status.ok(); ++i) {
    Rank& rank = ranks_[i];
    ncclUniqueId id;
    const std::string& text = unique_ids[parameters_.rail_split ? i : 0];
    std::copy(text.begin(), text.end(), id.internal);
    status = Enter(i);
    if (!status.ok()) break;
    const int all = static_cast<int>(comm_ranks_), number = static_cast<int>(rank.number);
    status = nccl_->can_start_without_blocking()
                 ? nccl_->Check(nccl_->CommInitRankConfig(&rank.comm, all, id, number, &config),
                                "ncclCommInitRankConfig")
                 : nccl_->Check(nccl_->CommInitRank(&rank.comm, all, id, number), "ncclCommInitRank");
  }
  const absl::Status ended = nccl_->Check(nccl_->GroupEnd(), "cannot make communicators");
  Publish();
  return status.ok() ? ended : status;
}

void DeviceRanks::Publish() {
  MutexLock lock(mutex_);
  for (const Rank& rank : ranks_)
    if (rank.comm != nullptr) live_.push_back(rank.comm);
}

absl::Status DeviceRanks::Connect(const Ranks& ranks, const std::vector<std::string>& unique_ids) {
  numbers_ = ranks;
  comm_ranks_ = parameters_.rail_split ? static_cast<uint32_t>(ranks.gpus.size()) : ranks.total();
  uint64_t send_bytes = 0, receive_bytes = 0;
  for (const Step& step : parameters_.steps) {
    if (step.kind == StepKind::kConnect) continue;
    const absl::StatusOr<Layout> layout =
        LayOut(parameters_.collective, parameters_.data_type, step.message_bytes, comm_ranks_);
    if (!layout.ok()) return layout.status();
    send_bytes = std::max(send_bytes, layout->send_bytes());
    receive_bytes = std::max(receive_bytes, layout->receive_bytes());
  }
  ranks_.resize(gpus_.size());
  for (size_t i = 0; i < ranks_.size(); ++i)
    ranks_[i].number =
        parameters_.rail_split ? ranks.participant : ranks.own_first() + static_cast<uint32_t>(i);
  if (absl::Status s = StartCommunicators(unique_ids); !s.ok()) return s;
  if (absl::Status s = WaitForCommunicators("cannot make communicators"); !s.ok()) return s;
  for (size_t i = 0; i < ranks_.size(); ++i)
    if (absl::Status s = PrepareRank(i, send_bytes, receive_bytes); !s.ok()) return s;
  absl::StatusOr<PinnedBuffer> staging = PinnedBuffer::Allocate(*cuda_, kMaxWindowBytes);
  if (!staging.ok()) return staging.status();
  staging_ = *std::move(staging);
  return absl::OkStatus();
}

absl::Status DeviceRanks::WaitForCommunicators(absl::string_view what) const {
  for (size_t i = 0; i < ranks_.size();) {
    if (stop_) return Stopped();
    ncclResult_t state = ncclSuccess;
    if (absl::Status s = nccl_->Check(nccl_->CommGetAsyncError(ranks_[i].comm, &state), what); !s.ok())
      return s;
    if (absl::Status s = nccl_->Check(state, absl::StrCat(what, " (", gpus_[i].pci_address, ")")); !s.ok())
      return s;
    if (state == ncclInProgress) {
      sched_yield();
    } else {
      ++i;
    }
  }
  return absl::OkStatus();
}

absl::Status DeviceRanks::CheckCommunicators(absl::string_view what) const {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    ncclResult_t state = ncclSuccess;
    if (absl::Status s = nccl_->Check(nccl_->CommGetAsyncError(ranks_[i].comm, &state), what); !s.ok())
      return s;
    if (absl::Status s = nccl_->Check(state, absl::StrCat(what, " (", gpus_[i].pci_address, ")")); !s.ok())
      return s;
  }
  return absl::OkStatus();
}

absl::Status DeviceRanks::WaitForStream(CUstream stream) const {
  CUresult state;
  while ((state = cuda_->StreamQuery(stream)) == CUDA_ERROR_NOT_READY) {
    if (stop_) return Stopped();
    Pause(kPollPause);
  }
  return cuda_->Check(state, "cuStreamQuery");
}

DeviceRanks::Place DeviceRanks::PlaceOf(const Rank& rank, const Layout& layout, bool in_place) const {
  Place place = {rank.send.address(), rank.receive.address()};
  if (!in_place) return place;
  // The smaller buffer lies within the larger, where this rank's unit is.
  const uint64_t own_unit = rank.number * layout.unit_bytes;
  if (layout.send_units > layout.receive_units) {
    place.receive = place.send + own_unit;
  } else {
    place.send = place.receive + (layout.receive_units > layout.send_units ? own_unit : 0);
  }
  return place;
}

absl::Status DeviceRanks::LaunchPairs(const Rank& rank, const Layout& layout, const Place& place) const {
  const ncclDataType_t type = NcclType(parameters_.data_type);
  const auto exchange = [&](uint32_t to, uint64_t send_unit, uint32_t from, uint64_t receive_unit) {
    const void* const send = Pointer(place.send + send_unit * layout.unit_bytes);
    void* const receive = Pointer(place.receive + receive_unit * layout.unit_bytes);
    if (absl::Status s = nccl_->Check(
            nccl_->Send(send, layout.count, type, static_cast<int>(to), rank.comm, rank.stream), "ncclSend");
        !s.ok())
      return s;
    return nccl_->Check(
        nccl_->Recv(receive, layout.count, type, static_cast<int>(from), rank.comm, rank.stream), "ncclRecv");
  };
  if (parameters_.collective == v1::NCCL_COLLECTIVE_SEND_RECV)
    return exchange((rank.number + 1) % comm_ranks_, 0, (rank.number + comm_ranks_ - 1) % comm_ranks_, 0);
  for (uint32_t peer = 0; peer < comm_ranks_; ++peer)
    if (absl::Status s = exchange(peer, peer, peer, peer); !s.ok()) return s;
  return absl::OkStatus();
}

absl::Status DeviceRanks::LaunchRank(const Rank& rank, const Layout& layout, const Place& place) const {
  const ncclDataType_t type = NcclType(parameters_.data_type);
  const void* const send = Pointer(place.send);
  void* const receive = Pointer(place.receive);
  switch (parameters_.collective) {
    case v1::NCCL_COLLECTIVE_ALL_REDUCE:
      return nccl_->Check(
          nccl_->AllReduce(send, receive, layout.count, type, ncclSum, rank.comm, rank.stream),
          "ncclAllReduce");
    case v1::NCCL_COLLECTIVE_REDUCE_SCATTER:
      return nccl_->Check(
          nccl_->ReduceScatter(send, receive, layout.count, type, ncclSum, rank.comm, rank.stream),
          "ncclReduceScatter");
    case v1::NCCL_COLLECTIVE_BROADCAST:
      return nccl_->Check(nccl_->Broadcast(send, receive, layout.count, type, 0, rank.comm, rank.stream),
                          "ncclBroadcast");
    case v1::NCCL_COLLECTIVE_ALL_TO_ALL:
    case v1::NCCL_COLLECTIVE_SEND_RECV:
      return LaunchPairs(rank, layout, place);
    default:
      return nccl_->Check(nccl_->AllGather(send, receive, layout.count, type, rank.comm, rank.stream),
                          "ncclAllGather");
  }
}

absl::Status DeviceRanks::Launch(const Layout& layout, bool in_place) const {
  if (absl::Status s = nccl_->Check(nccl_->GroupStart(), "ncclGroupStart"); !s.ok()) return s;
  absl::Status status;
  for (const Rank& rank : ranks_)
    if (status.ok()) status = LaunchRank(rank, layout, PlaceOf(rank, layout, in_place));
  const ncclResult_t ended = nccl_->GroupEnd();
  const char* const name = CollectiveName(parameters_.collective);
  if (status.ok()) status = nccl_->Check(ended, name);
  // Nothing more may be asked of a communicator that is still busy with the last request.
  if (status.ok() && ended == ncclInProgress) status = WaitForCommunicators(name);
  return status;
}

absl::StatusOr<std::vector<int64_t>> DeviceRanks::WaitForAll() const {
  std::vector<int64_t> ends(ranks_.size(), 0);
  size_t open = ranks_.size();
  int64_t next_check = NowTicks() + kCommCheckInterval;
  while (open > 0) {
    if (stop_) return Stopped();
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (ends[i] != 0) continue;
      const CUresult state = cuda_->StreamQuery(ranks_[i].stream);
      if (state == CUDA_ERROR_NOT_READY) continue;
      if (absl::Status s = cuda_->Check(state, absl::StrCat("GPU ", gpus_[i].pci_address)); !s.ok()) return s;
      ends[i] = NowTicks();
      --open;
    }
    if (NowTicks() >= next_check) {
      if (absl::Status s = CheckCommunicators(CollectiveName(parameters_.collective)); !s.ok()) return s;
      next_check = NowTicks() + kCommCheckInterval;
    }
    if (parameters_.host_timing) {
      sched_yield();
    } else {
      Pause(kPollPause);
    }
  }
  if (absl::Status s = CheckCommunicators(CollectiveName(parameters_.collective)); !s.ok()) return s;
  return ends;
}

absl::Status DeviceRanks::BringIntoStep(const Layout& layout, bool in_place) const {
  if (absl::Status s = Launch(layout, in_place); !s.ok()) return s;
  return parameters_.host_timing ? WaitForAll().status() : absl::OkStatus();
}

absl::StatusOr<std::vector<uint64_t>> DeviceRanks::Time(const Step& step, const Layout& layout,
                                                        uint32_t iterations,
                                                        const std::function<void()>& on_entered) {
  const auto record = [&](CUevent Rank::*event) {
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (absl::Status s = Enter(i); !s.ok()) return s;
      if (absl::Status s =
              cuda_->Check(cuda_->EventRecord(ranks_[i].*event, ranks_[i].stream), "cuEventRecord");
          !s.ok())
        return s;
    }
    return absl::OkStatus();
  };
  if (step.kind == StepKind::kTimed)
    if (absl::Status s = BringIntoStep(layout, step.in_place); !s.ok()) return s;
  const int64_t begin = NowTicks();
  if (absl::Status s = record(&Rank::start); !s.ok()) return s;
  for (uint32_t i = 0; i < iterations; ++i) {
    if (stop_) return Stopped();
    if (absl::Status s = Launch(layout, step.in_place); !s.ok()) return s;
  }
  if (absl::Status s = record(&Rank::end); !s.ok()) return s;
  on_entered();
  const absl::StatusOr<std::vector<int64_t>> ends = WaitForAll();
  if (!ends.ok()) return ends.status();
  std::vector<uint64_t> times;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    float milliseconds = 0;
    if (absl::Status s = cuda_->Check(cuda_->EventElapsedTime(&milliseconds, ranks_[i].start, ranks_[i].end),
                                      "cuEventElapsedTime");
        !s.ok())
      return s;
    const int64_t ns = parameters_.host_timing ? (*ends)[i] - begin : std::llround(milliseconds * 1e6);
    times.push_back(static_cast<uint64_t>(std::max<int64_t>(ns, 1)));
  }
  return times;
}

absl::StatusOr<std::vector<uint64_t>> DeviceRanks::Run(const Step& step, uint32_t iterations,
                                                       const std::function<void()>& on_entered) {
  const absl::StatusOr<Layout> layout =
      LayOut(parameters_.collective, parameters_.data_type, step.message_bytes, comm_ranks_);
  if (!layout.ok()) return layout.status();
  if (step.kind != StepKind::kCheck) return Time(step, *layout, iterations, on_entered);
  // The same at all participants: they have done as many checks.
  const Contents contents(parameters_.collective, parameters_.data_type, comm_ranks_, ++seed_);
  if (absl::Status s = FillAll(contents, *layout, step.in_place); !s.ok()) return s;
  absl::StatusOr<std::vector<uint64_t>> times = Time(step, *layout, iterations, on_entered);
  if (!times.ok()) return times;
  if (absl::Status s = CheckAll(contents, *layout, step.in_place); !s.ok()) return s;
  return times;
}

absl::Status DeviceRanks::Close() {
  if (nccl_->CommFinalize != nullptr) {
    for (const Rank& rank : ranks_)
      if (absl::Status s = nccl_->Check(nccl_->CommFinalize(rank.comm), "ncclCommFinalize"); !s.ok())
        return s;
    if (absl::Status s = WaitForCommunicators("ncclCommFinalize"); !s.ok()) return s;
  }
  for (Rank& rank : ranks_) {
    {
      MutexLock lock(mutex_);
      std::erase(live_, rank.comm);
    }
    if (absl::Status s = nccl_->Check(nccl_->CommDestroy(rank.comm), "ncclCommDestroy"); !s.ok()) return s;
  }
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (absl::Status s = Enter(i); !s.ok()) return s;
    ranks_[i].send = GpuBuffer();
    ranks_[i].receive = GpuBuffer();
  }
  return absl::OkStatus();
}

bool DeviceRanks::Abort(int64_t patience_ticks) {
  // Outlives this call where a thread does not come back.
  struct Pending {
    Mutex mutex;
    CondVar done;
    size_t open WEFT_GUARDED_BY(mutex) = 0;
    std::vector<std::thread> threads;
  };
  auto* const pending = new Pending;
  std::vector<ncclComm_t> comms;
  {
    MutexLock lock(mutex_);
    comms.swap(live_);
  }
  {
    MutexLock lock(pending->mutex);
    pending->open = comms.size();
  }
  for (const ncclComm_t comm : comms)
    pending->threads.emplace_back([this, pending, comm] {
      nccl_->CommAbort(comm);
      MutexLock lock(pending->mutex);
      if (--pending->open == 0) pending->done.NotifyAll();
    });
  const int64_t give_up = NowTicks() + patience_ticks;
  {
    MutexLock lock(pending->mutex);
    while (pending->open > 0 && NowTicks() < give_up)
      pending->done.WaitFor(pending->mutex, std::chrono::milliseconds(10));
    if (pending->open > 0) return false;
  }
  for (std::thread& thread : pending->threads) thread.join();
  delete pending;
  return true;
}

}  // namespace weft::nccl
