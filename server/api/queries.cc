#include "server/api/queries.h"

#include <set>
#include <utility>

#include "server/alert/window.h"
#include "server/api/fleet_facts.h"

namespace weft {

Queries::Queries(Store& store, const FleetView& view, Clock& clock, QueriesOptions options)
    : store_(store), view_(view), clock_(clock), options_(std::move(options)) {}

absl::StatusOr<NodeDirectory> Queries::Directory() {
  auto nodes = store_.ListNodes();
  if (!nodes.ok()) return nodes.status();
  const auto connected = view_.Connected();
  Overlay(connected, &*nodes);
  std::set<std::string> ids;
  for (const auto& [id, presence] : connected) ids.insert(id);
  return NodeDirectory(*std::move(nodes), std::move(ids));
}

absl::StatusOr<std::vector<NodeFacts>> Queries::FactsOf(const NodeDirectory& directory, absl::Time now) {
  const auto episodes = store_.OpenEpisodes();
  if (!episodes.ok()) return episodes.status();
  const auto windows = store_.ListWindows();
  if (!windows.ok()) return windows.status();
  return GatherFacts(directory, view_.Connected(), *view_.Levels(), *episodes, OpenWindows(*windows, now),
                     now);
}

absl::StatusOr<std::string> Queries::NodeIdFor(const NodeDirectory& directory, absl::string_view name) {
  if (name.empty()) return std::string();
  const auto record = directory.Find(name);
  if (!record.ok()) return record.status();
  return (*record)->node.id;
}

}  // namespace weft
