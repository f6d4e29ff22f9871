// Runs detection and alerting on a thread of its own: committed results in, episodes and notifications out.
//
// Each step reads what was stored since the cursor, feeds the detector, asks what holds now, and commits
// detector state, cursor, episodes and outbox rows as one transaction. A crash in between repeats the step
// from the cursor.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/worker.h"
#include "server/alert/episodes.h"
#include "server/api/fleet_view.h"
#include "server/detect/detector.h"
#include "server/detect/liveness.h"
#include "server/http/metrics.h"
#include "store/store.h"

namespace weft {

struct DetectLoopOptions {
  LivenessOptions liveness;
  std::vector<std::string> receivers;  // names
  std::string external_url;
  // Called after a commit that may have queued notifications, with the nodes that open findings name.
  std::function<void(const std::set<std::string>& suspects)> on_committed;
};

class DetectLoop {
 public:
  // `outbox_mutex` is held from reading the outbox to committing the changes; see server/alert/outbox.h.
  DetectLoop(DetectLoopOptions options, Detector detector, Store& store, Clock& clock, Mutex& outbox_mutex,
             FleetView& view, MetricCounters& counters);
  // Restores the detector from the store. Call once, before Start.
  absl::Status Recover();
  void Start() { worker_.Start(); }
  void Stop() { worker_.Stop(); }
  // The node is no longer in the store: its findings end, and `note` says why. Any thread.
  void NoteRemoved(const std::string& node_id, const std::string& note) WEFT_EXCLUDES(removed_mutex_);
  // Something changed: results, windows or agents. Any thread.
  void Wake() { worker_.Wake(); }

 private:
  absl::Duration Step();
  // Feeds the detector all that is stored beyond the cursor.
  absl::Status CatchUp(const std::map<std::string, Node>& nodes);
  absl::Status Evaluate(const std::vector<NodeRecord>& records, const std::map<std::string, Node>& nodes);
  absl::StatusOr<EpisodeInput> ReadInput(const std::vector<NodeRecord>& records,
                                         const std::map<std::string, Node>& nodes, absl::Time now);
  absl::Status Commit(EpisodeChanges changes);
  void CountChanges(const EpisodeChanges& changes, const EpisodeInput& before, absl::Time now);
  void EndThoseOfUnknownNodes(const std::map<std::string, Node>& nodes, EpisodeInput& input)
      WEFT_EXCLUDES(removed_mutex_);
  void Publish(const std::vector<Finding>& findings);

  const DetectLoopOptions options_;
  Detector detector_;
  Store& store_;
  Clock& clock_;
  Mutex& outbox_mutex_;
  FleetView& view_;
  MetricCounters& counters_;
  int64_t cursor_ = 0;            // what the detector has seen
  int64_t committed_cursor_ = 0;  // what the store knows of that
  std::vector<DetectorState> unsaved_states_;
  Mutex removed_mutex_;
  std::map<std::string, std::string> removed_ WEFT_GUARDED_BY(removed_mutex_);  // notes by node id
  Worker worker_;                                                               // last: stops first
};

}  // namespace weft
