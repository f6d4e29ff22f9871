#include "bench/sim/episode_book.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/sim/world.h"
#include "server/alert/episodes.h"

namespace weft::sim {

EpisodeBook::EpisodeBook(const Scenario& scenario) {
  for (size_t i = 0; i < scenario.nodes; ++i) {
    Node& node = nodes_[NodeId(i)];
    node.id = node.hostname = NodeId(i);
  }
  for (const Maintenance& work : scenario.maintenance) {
    MaintenanceWindow window;
    window.id = absl::StrCat("window-", windows_.size());
    Matcher matcher{"node", MatchOperator::kIn, {}};
    for (size_t i = 0; i < work.nodes; ++i) matcher.values.push_back(NodeId(work.first_node + i));
    window.matchers = {std::move(matcher)};
    window.schedule = OneOff{kStart + work.start, kStart + work.end};
    windows_.push_back(std::move(window));
  }
}

void EpisodeBook::Step(std::vector<Finding> findings, absl::Time now) {
  EpisodeInput input;
  input.findings = std::move(findings);
  for (const auto& [key, episode] : open_) input.open_episodes.push_back(episode);
  input.windows = windows_;
  input.nodes = [this](absl::string_view id) -> const Node* {
    const auto it = nodes_.find(std::string(id));
    return it == nodes_.end() ? nullptr : &it->second;
  };
  input.receivers = {"pager"};
  for (const std::string& id : EpisodesToLookUp(input, now)) {
    const std::vector<Delivery>& rows = delivered_[id];
    input.deliveries.insert(input.deliveries.end(), rows.begin(), rows.end());
  }
  EpisodeChanges changes = Reconcile(input, now);
  for (Delivery& delivery : changes.deliveries) {
    delivery.state = DeliveryState::kDelivered;
    delivery.body.clear();
    delivered_[delivery.episode_id].push_back(std::move(delivery));
  }
  for (Episode& episode : changes.episodes) {
    const std::string key = episode.finding.Key();
    if (episode.is_open()) {
      open_[key] = std::move(episode);
    } else {
      delivered_.erase(episode.id);
      open_.erase(key);
    }
  }
}

}  // namespace weft::sim
