// Ping-pong of 8 bytes. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/probes/fabric/channel.h"

namespace weft::fabric {

// Half round trips in seconds, as this end timed them. Rank 0 sends first; each end times from its own send
// to the next arrival, so both have a view of their own. Some untimed exchanges come first. Rank 1 has one
// sample less than the `iterations`, of which there are at least two. Errors as Channel.
absl::StatusOr<std::vector<double>> MeasureLatency(Channel& channel, uint32_t rank, uint32_t iterations,
                                                   int64_t deadline);

}  // namespace weft::fabric
