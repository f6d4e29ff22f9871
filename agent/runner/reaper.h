// Owner of all child processes of the agent: nobody else may start or wait for one.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <set>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace weft {

// Thread-safe. A child that was started through Spawn is *known* until Reap. Every other child of this
// process is a *stray*: a probe's descendant whose parent died, handed to this process because it is a child
// subreaper. Strays have no right to live: a probe must not leave daemons, and one that does while another
// probe runs loses them just the same.
class Reaper {
 public:
  // Makes this process the one to which orphaned descendants fall. Call once, before the first Spawn.
  static absl::Status BecomeSubreaper();

  // Runs `spawn`, which starts one child and returns its pid, such that no sweep can take the new child for
  // a stray.
  absl::StatusOr<pid_t> Spawn(const std::function<absl::StatusOr<pid_t>()>& spawn) WEFT_EXCLUDES(mutex_);
  // Waits for the known child `pid` and forgets it, in one step, so that a new child with the same number
  // cannot be forgotten in its place. Gives its wait status; nullopt while it runs.
  std::optional<int> Reap(pid_t pid) WEFT_EXCLUDES(mutex_);

  // Kills and reaps strays, those they leave behind too, until none is left or `patience` has passed (a
  // process inside a sick driver may not die). Returns how many are left; the next sweep tries again.
  size_t SweepStrays(absl::Duration patience) WEFT_EXCLUDES(mutex_);

 private:
  // One pass: how many strays are still there.
  size_t KillStrays() WEFT_EXCLUDES(mutex_);

  Mutex mutex_;
  std::set<pid_t> known_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft
