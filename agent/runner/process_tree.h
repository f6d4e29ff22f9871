// Who descends from whom, read from /proc. Any thread. What is returned may be stale when it is read.
#pragma once

#include <sys/types.h>

#include <vector>

namespace weft {

// Children of this process in any state, zombies too, whichever of its threads they hang on.
std::vector<pid_t> OwnChildren();

// How a process stands to this one. A process group that is led by a child of ours is a probe with all that
// it started. So is one led by a child of another process of this very program: agents that share a host, as
// in trials, are no jobs to each other.
enum class Kinship { kOwn, kForeign, kGone };
// kGone: there is no such process, or none that this process may see (another PID namespace).
Kinship KinshipOf(pid_t pid);

}  // namespace weft
