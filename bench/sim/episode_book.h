// Episodes, maintenance windows and deliveries as the server keeps them (server/alert), with one receiver
// that accepts everything at once. Used by one thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "bench/sim/scenario.h"
#include "fleet/finding.h"
#include "fleet/maintenance.h"
#include "fleet/node.h"

namespace weft::sim {

class EpisodeBook {
 public:
  explicit EpisodeBook(const Scenario& scenario);
  // Findings that hold now.
  void Step(std::vector<Finding> findings, absl::Time now);
  // By Finding::Key(), so that their order follows from the scenario.
  const std::map<std::string, Episode>& open() const { return open_; }

 private:
  std::map<std::string, Node> nodes_;
  std::vector<MaintenanceWindow> windows_;
  std::map<std::string, Episode> open_;
  std::map<std::string, std::vector<Delivery>> delivered_;  // by id of the open episode
};

}  // namespace weft::sim
