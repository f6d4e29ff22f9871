// Who descends from whom, read from /proc. Any thread. What is returned may be stale when it is read.
#pragma once

#include <sys/types.h>

#include <vector>

namespace weft {

// Children of this process in any state, zombies too, whichever of its threads they hang on.
std::vector<pid_t> OwnChildren();

}  // namespace weft
