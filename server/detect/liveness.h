// Findings from silence and clocks rather than from results. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "fleet/finding.h"

namespace weft {

// What is known of a node's agent.
struct NodeView {
  std::string node_id;
  bool connected = false;
  absl::Time last_seen = absl::InfinitePast();         // server clock
  absl::Duration clock_offset = absl::ZeroDuration();  // agent wall clock minus server wall clock
};

struct LivenessOptions {
  absl::Duration missing_after = absl::Minutes(5);
  absl::Duration reconnect_spread = absl::Seconds(5);  // longest random wait of agents before they reconnect
  absl::Time server_start = absl::InfinitePast();
  absl::Duration most_clock_skew = absl::Seconds(60);
};

// kAgentMissing for each node that is not connected and was not seen for missing_after; not while agents may
// still be coming back to a server that started less than max(missing_after, 2 x reconnect_spread) ago.
// kClockSkew (a warning, without a `since`) for each connected node whose clock is off by more than
// most_clock_skew. Texts change only when the facts do.
std::vector<Finding> LivenessFindings(const std::vector<NodeView>& nodes, absl::Time now,
                                      const LivenessOptions& options);

}  // namespace weft
