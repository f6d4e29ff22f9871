#include "server/api/fleet_facts.h"

#include <algorithm>

#include "server/alert/window.h"

namespace weft {

void Overlay(const ConnectedAgents& connected, std::vector<NodeRecord>* nodes) {
  for (NodeRecord& record : *nodes) {
    const auto found = connected.find(record.node.id);
    if (found == connected.end()) continue;
    record.last_seen = std::max(record.last_seen, found->second.last_seen);
    record.clock_offset = found->second.clock_offset;
    record.spool_lost_records = found->second.spool_lost_records;
  }
}

std::vector<NodeFacts> GatherFacts(const NodeDirectory& directory, const ConnectedAgents& connected,
                                   const std::vector<NodeLevel>& levels,
                                   const std::vector<Episode>& open_episodes,
                                   const std::vector<MaintenanceWindow>& open_windows, absl::Time now) {
  std::vector<NodeFacts> all;
  all.reserve(directory.nodes().size());
  std::map<std::string, NodeFacts*> by_id;
  for (const NodeRecord& record : directory.nodes()) {
    NodeFacts& facts = all.emplace_back();
    facts.record = record;
    facts.connected = connected.count(record.node.id) > 0;
    facts.muted = !CoveredBy(LabelsOf(record.node, ""), open_windows, now).empty();
    by_id[record.node.id] = &facts;
  }
  for (const NodeLevel& level : levels) {
    if (const auto it = by_id.find(level.node_id); it != by_id.end()) it->second->levels.push_back(level);
  }
  for (const Episode& episode : open_episodes) {
    for (const std::string& id : episode.finding.node_ids) {
      if (const auto it = by_id.find(id); it != by_id.end()) it->second->open.push_back(episode);
    }
  }
  return all;
}

}  // namespace weft
