#include "agent/idle/idle_proof.h"

#include <pthread.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/inventory/byte_counters.h"
#include "convert/convert.h"

namespace weft {
namespace {

// How soon a guard notices that its run is over, or that it was cancelled.
constexpr absl::Duration kSettle = absl::Seconds(3);
constexpr absl::Duration kSlice = absl::Milliseconds(50);

}  // namespace

absl::Status IdleProof::CheckNow() const {
  const GpuWatch::Reading reading = watch_.last_reading();
  if (!reading.activity.ok()) return reading.activity.status();
  // Utilisation and memory may be those of a probe that has ended since, and so may a process that is gone.
  const IdleLimits certain = {.gpu_utilization_percent = 100, .gpu_memory_bytes = UINT64_MAX};
  return CheckGpusIdle(*reading.activity, certain, [this](pid_t pid) {
    const Kinship kin = options_.kinship(pid);
    return kin == Kinship::kGone ? Kinship::kOwn : kin;
  });
}

// The first reading may have begun before the question; the second has not.
absl::StatusOr<GpuWatch::Reading> IdleProof::AwaitTwo(const CancelToken& cancel) const {
  const absl::Duration until = options_.clock->Monotonic() + options_.patience;
  const uint64_t first = watch_.last_reading().number;
  uint64_t seen = first;
  while (options_.clock->Monotonic() < until) {
    if (cancel.cancelled()) return absl::CancelledError("cancelled before the probe was started");
    const std::optional<GpuWatch::Reading> reading = watch_.AwaitReading(seen, kSlice);
    if (!reading) continue;
    if (!reading->activity.ok() || reading->number >= first + 2) return *reading;
    seen = reading->number;
  }
  const GpuWatch::Reading last = watch_.last_reading();
  if (!last.activity.ok()) return last.activity.status();
  return absl::FailedPreconditionError(absl::StrCat(
      "the driver did not say within ", absl::FormatDuration(options_.patience), " who uses the GPUs"));
}

IdleProof::Guard::Guard(const IdleProof& proof) : proof_(proof) { proof_.watch_.Attend(); }

IdleProof::Guard::~Guard() {
  Finish();
  proof_.watch_.Ignore();
}

void IdleProof::Guard::Finish() {
  done_ = true;
  if (thread_.joinable()) thread_.join();
}

absl::Status IdleProof::Guard::Check(const CancelToken& cancel) {
  const Options& options = proof_.options_;
  const std::vector<ByteCounter> before = ReadByteCounters(options.root);
  const absl::Duration start = options.clock->Monotonic();
  const absl::StatusOr<GpuWatch::Reading> reading = proof_.AwaitTwo(cancel);
  if (!reading.ok()) return reading.status();
  if (!reading->activity.ok()) return reading->activity.status();
  if (absl::Status status = CheckGpusIdle(*reading->activity, options.limits, options.kinship); !status.ok())
    return status;
  return CheckNicsIdle(
      TrafficBetween(before, ReadByteCounters(options.root)), options.clock->Monotonic() - start,
      options.nic_rates ? options.nic_rates() : std::map<std::string, uint64_t>(), options.limits);
}

void IdleProof::Guard::Begin(CancelToken& cancel) {
  thread_ = std::thread([this, &cancel] {
    pthread_setname_np(pthread_self(), "weft-idle");
    Watch(cancel);
  });
}

void IdleProof::Guard::Watch(CancelToken& cancel) {
  JobWatch jobs;
  uint64_t seen = proof_.watch_.last_reading().number;
  while (!done_) {
    const std::optional<GpuWatch::Reading> reading = proof_.watch_.AwaitReading(seen, kSlice);
    if (!reading) continue;
    seen = reading->number;
    sign_ = reading->activity.ok() ? jobs.Look(*reading->activity, proof_.options_.kinship)
                                   : reading->activity.status();
    if (sign_.ok()) continue;
    sign_time_ = proof_.options_.clock->Monotonic();
    cancel.Cancel();
    return;
  }
}

// The next lease goes by the last reading: it must not see this run's probe in it.
void IdleProof::Guard::AwaitIdle() const {
  const Options& options = proof_.options_;
  const absl::Duration until = options.clock->Monotonic() + kSettle;
  uint64_t seen = proof_.watch_.last_reading().number;
  while (options.clock->Monotonic() < until) {
    const std::optional<GpuWatch::Reading> reading = proof_.watch_.AwaitReading(seen, kSlice);
    if (!reading) continue;
    if (!reading->activity.ok()) return;
    // Probes of other agents must be gone too: they would look like a job in this reading once they are.
    const auto nobody = [](pid_t) { return Kinship::kForeign; };
    if (CheckGpusIdle(*reading->activity, options.limits, nobody).ok()) return;
    seen = reading->number;
  }
}

void IdleProof::Guard::End(v1::Result* result) {
  const absl::Duration gone = proof_.options_.clock->Monotonic();
  Finish();
  if (sign_.ok() || sign_time_ > gone) return AwaitIdle();
  const absl::Duration latency = gone - sign_time_;
  result->set_outcome(v1::OUTCOME_YIELDED);
  result->clear_measurements();
  ToProto(latency, result->mutable_yield_latency());
  const std::string ended = result->detail();
  result->set_detail(absl::StrCat(
      absl::IsUnavailable(sign_) ? "yielded to a job: " : "cannot see whether a job came: ",
      std::string(sign_.message()), "; the probe was gone after ",
      absl::FormatDuration(absl::Trunc(latency, absl::Milliseconds(1))), ended.empty() ? "" : "; ", ended));
}

}  // namespace weft
