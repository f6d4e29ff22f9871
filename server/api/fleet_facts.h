// Everything that is known of the nodes, gathered from what the store and the loops hold. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "fleet/finding.h"
#include "fleet/maintenance.h"
#include "server/api/fleet_view.h"
#include "server/api/node_directory.h"
#include "server/api/node_status.h"

namespace weft {

using ConnectedAgents = std::map<std::string, AgentPresence, std::less<>>;

// Puts what the open streams know over what was stored.
void Overlay(const ConnectedAgents& connected, std::vector<NodeRecord>* nodes);

// Facts of every node of `directory`, in its order. `open_episodes` are all open ones, `open_windows` those
// open now.
std::vector<NodeFacts> GatherFacts(const NodeDirectory& directory, const ConnectedAgents& connected,
                                   const std::vector<NodeLevel>& levels,
                                   const std::vector<Episode>& open_episodes,
                                   const std::vector<MaintenanceWindow>& open_windows, absl::Time now);

}  // namespace weft
