// How a node stands, from what is known of it. Pure.
#pragma once

#include <vector>

#include "absl/time/time.h"
#include "fleet/finding.h"
#include "fleet/node.h"
#include "weft/v1/fleet.pb.h"

namespace weft {

// What is known of one node at one moment.
struct NodeFacts {
  NodeRecord record;  // last_seen and clock_offset already the freshest
  bool connected = false;
  bool muted = false;
  std::vector<NodeLevel> levels;  // of this node
  std::vector<Episode> open;      // open episodes that name this node
};

// Whether an open finding blames the node itself: told to people, and of its own scope (a path or the whole
// fleet being slow does not make a node degraded).
bool Blames(const Finding& finding);

// MISSING while no stream is open, whatever else is known; DEGRADED while a finding blames it; then
// UNSPECIFIED if it never had a good result, STALE if the last is older than `stale_after`; else OK.
v1::NodeState StateOf(const NodeFacts& facts, absl::Time now, absl::Duration stale_after);

// The bandwidth level that tables show: the worst share of the expected among levels younger than
// `stale_after`, else the latest one. Null if there is none. Points into `levels`.
const NodeLevel* ShownLevel(const std::vector<NodeLevel>& levels, absl::Time now, absl::Duration stale_after);

v1::NodeStatus NodeStatusOf(const NodeFacts& facts, absl::Time now, absl::Duration stale_after);

}  // namespace weft
