#include "agent/probes/gpu_copy/probe.h"

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/probes/gpu_copy/copies.h"
#include "agent/probes/process/ticks.h"
#include "base/mutex.h"
#include "base/text.h"

namespace weft::gpu_copy {
namespace {

// Between the thread that copies and the one that must not hang.
struct Shared {
  std::atomic<bool> stop{false};
  Mutex mutex;
  CondVar changed;
  std::string pair WEFT_GUARDED_BY(mutex);
  std::optional<absl::StatusOr<Copies>> end WEFT_GUARDED_BY(mutex);
};

v1::Result Judge(const absl::StatusOr<Copies>& copies) {
  v1::Result result;
  if (copies.ok()) {
    result.set_outcome(v1::OUTCOME_OK);
    result.set_detail(absl::StrJoin(copies->notes, "; "));
    result.set_stack_fingerprint(EscapeControl(ToValidUtf8(copies->stack_fingerprint)));
    for (const v1::Measurement& m : copies->measurements) *result.add_measurements() = m;
    return result;
  }
  const bool cannot = absl::IsNotFound(copies.status());
  result.set_outcome(cannot ? v1::OUTCOME_REFUSED : v1::OUTCOME_FAILED);
  result.set_detail(EscapeControl(ToValidUtf8(copies.status().message())));
  return result;
}

// Waits for news of the other thread: the next pair, or the end. False once the deadline has passed.
bool Await(Shared* shared, std::string* pair, std::optional<absl::StatusOr<Copies>>* end, int64_t deadline) {
  MutexLock lock(shared->mutex);
  while (shared->pair == *pair && !shared->end) {
    if (NowTicks() >= deadline) return false;
    shared->changed.WaitFor(shared->mutex, std::chrono::milliseconds(20));
  }
  *pair = shared->pair;
  *end = shared->end;
  return true;
}

}  // namespace

v1::Result RunProbe(const v1::ProbeRequest& request, const ProbeSinks& sinks) {
  const int64_t deadline = ProbeDeadline(request);
  sinks.on_phase("open");
  // Both stay behind when the thread hangs.
  auto* const shared = new Shared;
  auto* const thread = new std::thread([shared, probe = request.spec().gpu_copy()] {
    absl::StatusOr<Copies> copies = MeasureCopies(probe, shared->stop, [shared](const std::string& pair) {
      MutexLock lock(shared->mutex);
      shared->pair = pair;
      shared->changed.NotifyAll();
    });
    MutexLock lock(shared->mutex);
    shared->end.emplace(std::move(copies));
    shared->changed.NotifyAll();
  });
  std::string pair;
  std::optional<absl::StatusOr<Copies>> end;
  while (Await(shared, &pair, &end, deadline)) {
    if (!end) {
      sinks.on_phase(absl::StrCat("copy ", pair).c_str());
      continue;
    }
    thread->join();
    delete thread;
    delete shared;
    v1::Result result = Judge(*end);
    result.set_phase(pair.empty() ? "open" : absl::StrCat("copy ", pair));
    return result;
  }
  shared->stop = true;
  v1::Result result;
  result.set_outcome(v1::OUTCOME_TIMED_OUT);
  result.set_phase(pair.empty() ? "open" : absl::StrCat("copy ", pair));
  result.set_detail(absl::StrCat(result.phase(), " did not end in time"));
  return result;
}

}  // namespace weft::gpu_copy
