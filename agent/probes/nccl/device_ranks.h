// The GPUs of this participant, one NCCL rank each.
//
// One thread, the worker, calls everything but Abort and stop. Everything waits by asking, and ends soon once
// `stop` is set; but NCCL and the driver may hang in any call. That thread may then be given up: Abort is
// called on another one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/probes/cuda/cuda_driver.h"
#include "agent/probes/nccl/collective.h"
#include "agent/probes/nccl/nccl_library.h"
#include "agent/probes/nccl/parameters.h"
#include "agent/probes/nccl/pattern.h"
#include "base/mutex.h"

namespace weft::nccl {

// How the participants' GPUs become ranks.
struct Ranks {
  std::vector<uint32_t> gpus;  // of each participant, in order
  uint32_t participant = 0;    // this one

  uint32_t total() const;
  // Number over all participants of a participant's first rank.
  uint32_t first(uint32_t participant_number) const;
  uint32_t own_first() const { return first(participant); }
};

class DeviceRanks {
 public:
  // Loads the libraries and opens all visible GPUs. kNotFound or kUnimplemented when this node cannot run
  // such a probe at all (no GPU, no library, one too old); anything else when something is broken. `stop`
  // outlives the result.
  static absl::StatusOr<std::unique_ptr<DeviceRanks>> Open(const Parameters& parameters,
                                                           const std::atomic<bool>& stop);

  const std::vector<Gpu>& gpus() const { return gpus_; }
  const NcclLibrary& nccl() const { return *nccl_; }
  const CudaDriver& cuda() const { return *cuda_; }

  // Ids for participant 0 to hand out: one, or one per GPU for rails. The process must live on while others
  // use them.
  absl::StatusOr<std::vector<std::string>> MakeUniqueIds() const;

  // Makes the communicators and buffers. kCancelled when stopped.
  absl::Status Connect(const Ranks& ranks, const std::vector<std::string>& unique_ids);

  // Runs one step with that many iterations. `on_entered` is called once all of it was handed to the GPUs.
  // Gives the nanoseconds that each own rank took. kCancelled when stopped; kDataLoss when received data is
  // wrong, saying where.
  absl::StatusOr<std::vector<uint64_t>> Run(const Step& step, uint32_t iterations,
                                            const std::function<void()>& on_entered);

  // Ends the communicators in peace and frees the buffers; everybody has done all steps.
  absl::Status Close();

  // Ends all communicators at once, whatever they do: one thread each, since each may wait for the others.
  // False when some did not end within `patience_ticks`; their threads are then left to the end of the
  // process. Idempotent; any thread.
  bool Abort(int64_t patience_ticks) WEFT_EXCLUDES(mutex_);

  // Of the checks so far.
  uint64_t checked_bytes() const { return checked_bytes_; }
  uint64_t received_bytes() const { return received_bytes_; }

 private:
  struct Rank {
    uint32_t number = 0;  // within its communicator
    ncclComm_t comm = nullptr;
    CUstream stream = nullptr;
    CUevent start = nullptr;
    CUevent end = nullptr;
    GpuBuffer send;
    GpuBuffer receive;
  };
  // Where one step's data lies for one rank.
  struct Place {
    CUdeviceptr send = 0;
    CUdeviceptr receive = 0;
  };

  explicit DeviceRanks(const std::atomic<bool>& stop) : stop_(stop) {}
  absl::Status StartCommunicators(const std::vector<std::string>& unique_ids);
  absl::Status PrepareRank(size_t index, uint64_t send_bytes, uint64_t receive_bytes);
  absl::Status Enter(size_t index) const;
  void Publish() WEFT_EXCLUDES(mutex_);
  // Polls until no communicator is busy with what it was asked.
  absl::Status WaitForCommunicators(absl::string_view what) const;
  absl::Status CheckCommunicators(absl::string_view what) const;
  absl::Status WaitForStream(CUstream stream) const;
  Place PlaceOf(const Rank& rank, const Layout& layout, bool in_place) const;
  absl::Status Launch(const Layout& layout, bool in_place) const;
  absl::Status LaunchRank(const Rank& rank, const Layout& layout, const Place& place) const;
  absl::Status LaunchPairs(const Rank& rank, const Layout& layout, const Place& place) const;
  // One collective more, untimed: participants begin a step a little after each other, which would count as
  // time of the first ones.
  absl::Status BringIntoStep(const Layout& layout, bool in_place) const;
  absl::StatusOr<std::vector<uint64_t>> Time(const Step& step, const Layout& layout, uint32_t iterations,
                                             const std::function<void()>& on_entered);
  absl::StatusOr<std::vector<int64_t>> WaitForAll() const;
  absl::Status FillAll(const Contents& contents, const Layout& layout, bool in_place);
  absl::Status FillRank(size_t index, const Contents& contents, const Layout& layout, bool in_place);
  absl::Status CheckAll(const Contents& contents, const Layout& layout, bool in_place);
  absl::Status CheckRank(size_t index, const Contents& contents, const Layout& layout, bool in_place);
  std::vector<Window> WindowsOf(const Layout& layout) const;

  const std::atomic<bool>& stop_;
  Parameters parameters_;
  std::unique_ptr<CudaDriver> cuda_;
  std::unique_ptr<NcclLibrary> nccl_;
  std::vector<Gpu> gpus_;
  Ranks numbers_;
  uint32_t comm_ranks_ = 0;  // in each communicator
  std::vector<Rank> ranks_;
  PinnedBuffer staging_;
  uint64_t seed_ = 0;
  uint64_t checked_bytes_ = 0;
  uint64_t received_bytes_ = 0;

  Mutex mutex_;
  std::vector<ncclComm_t> live_ WEFT_GUARDED_BY(mutex_);  // to abort
};

}  // namespace weft::nccl
