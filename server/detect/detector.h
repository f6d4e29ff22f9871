// Turns stored results into what Weft believes of nodes, NICs, pairs and fleets. Pure: no thread, no clock,
// no store; the same results give the same findings, also across a restart at any point. Used by one thread.
//
// Findings it makes (server/detect/board.h has the model):
//   kBandwidthDrop  node or NIC well below its own history; fleet: most of a cohort at once (part = cohort);
//                   pair: slow run after run while both ends are fine with others
//   kBelowCohort    node or NIC that never was as fast as its cohort
//   kProbeFailure   runs with the node fail, whoever the partner; fleet: with most of a cohort
//   kTransient      a slow run of a pair that nothing explains yet: a note, never more
// Runs in maintenance windows are judged but train nothing; skipped and refused ones are no evidence at all.
// Latency is stored, not judged.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "fleet/finding.h"
#include "fleet/probe.h"
#include "server/detect/board.h"
#include "server/detect/options.h"

namespace weft {

class Detector {
 public:
  explicit Detector(DetectorOptions options) : options_(options) {}

  // Takes back what TakeChangedStates gave, of all times, the latest of each key. Call it first, once.
  // kDataLoss, naming the key, when a state cannot be read; the detector is then useless.
  absl::Status Restore(const std::vector<DetectorState>& states);
  // Results may come in any order and more than once. Runs that do not have two participants say nothing.
  void Observe(const StoredResult& result);
  // All that is believed now, in the order of Finding::Key(). Infos are among them.
  std::vector<Finding> Findings() const;
  // Memory that changed since the last call; what was taken before stays valid for other keys.
  std::vector<DetectorState> TakeChangedStates();
  // One row per node and probe, the worst NIC standing for the node; in the order of probe and node.
  std::vector<NodeLevel> Levels() const;

 private:
  // Probe and NIC; the NIC is empty for what concerns the node as a whole.
  using BoardKey = std::pair<std::string, std::string>;

  Board& BoardOf(const std::string& probe, const std::string& channel);
  absl::Status RestoreOne(const DetectorState& state);

  DetectorOptions options_;
  std::map<BoardKey, Board> boards_;
};

}  // namespace weft
