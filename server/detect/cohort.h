// Which nodes of a cohort are slow right now, judged by their peers alone. Finds the node that was never
// fast. Pure; any thread.
//
// What all share is taken out first, sample by sample, so that a fleet-wide drop blames nobody. A legitimate
// sub-population (another firmware, another cable) is a second level of its own and is not blamed either.
#pragma once

#include <cstddef>
#include <vector>

namespace weft {

struct PeerVerdict {
  size_t node = 0;          // index into the cohort
  double deviation = 0;     // log ratio to its peers' level, below 0
  double scales_below = 0;  // how many scales of the cohort it lies below its peers
};

// `values[node]` are that node's newest samples, taken at the same times for all, above 0 and higher is
// better; what is not a finite number above 0 is missing. Nodes with fewer than half of the samples are not
// judged, and nobody is in a cohort with fewer than 6 nodes to judge. Returns the slow ones in the order of
// their index.
std::vector<PeerVerdict> SlowAmongPeers(const std::vector<std::vector<double>>& values);

}  // namespace weft
