#include "agent/runner/reaper.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <chrono>
#include <thread>

#include "agent/runner/process_tree.h"

namespace weft {
namespace {

constexpr int kUnknownStatus = 255 << 8;  // exit code 255
constexpr auto kPassInterval = std::chrono::milliseconds(2);

}  // namespace

absl::Status Reaper::BecomeSubreaper() {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "cannot become a child subreaper; orphans of probes would stay");
}

absl::StatusOr<pid_t> Reaper::Spawn(const std::function<absl::StatusOr<pid_t>()>& spawn) {
  MutexLock lock(mutex_);
  absl::StatusOr<pid_t> pid = spawn();
  if (pid.ok()) known_.insert(*pid);
  return pid;
}

std::optional<int> Reaper::Reap(pid_t pid) {
  MutexLock lock(mutex_);
  int status = 0;
  const pid_t waited = waitpid(pid, &status, WNOHANG);
  if (waited == 0) return std::nullopt;
  // Somebody else reaped it, against the contract: how it ended is unknown, which is not success.
  if (waited < 0) status = kUnknownStatus;
  known_.erase(pid);
  return status;
}

size_t Reaper::KillStrays() {
  // Held over the kills too: a pid that is a child of ours cannot be used anew before we wait for it, and
  // only this function waits for strays.
  MutexLock lock(mutex_);
  size_t left = 0;
  for (const pid_t pid : OwnChildren()) {
    if (known_.count(pid) > 0) continue;
    kill(pid, SIGKILL);
    if (waitpid(pid, nullptr, WNOHANG) == 0) ++left;
  }
  return left;
}

size_t Reaper::SweepStrays(absl::Duration patience) {
  const auto give_up = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(patience);
  // One clean pass is not enough: the orphans of a stray that was reaped a moment ago come to us late, and
  // the kernel's list of children may miss one while it changes.
  int clean_passes = 0;
  size_t left = 0;
  while (clean_passes < 2) {
    left = KillStrays();
    clean_passes = left == 0 ? clean_passes + 1 : 0;
    if (left == 0) continue;
    if (std::chrono::steady_clock::now() > give_up) break;
    std::this_thread::sleep_for(kPassInterval);
  }
  return left;
}

}  // namespace weft
