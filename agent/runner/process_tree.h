// Who descends from whom, read from /proc. Any thread. What is returned may be stale when it is read.
#pragma once

#include <sys/types.h>

#include <vector>

namespace weft {

// Children of this process in any state, zombies too, whichever of its threads they hang on.
std::vector<pid_t> OwnChildren();

// How a process stands to this one. A process group that is led by a child of ours is a probe with all that
// it started. One that is led by a weft-probe-… is a probe of another agent on this machine, as in trials: no
// job either.
enum class Kinship { kOwn, kForeign, kGone };
// kGone: there is no such process, or none that this process may see (another PID namespace).
Kinship KinshipOf(pid_t pid);

}  // namespace weft
