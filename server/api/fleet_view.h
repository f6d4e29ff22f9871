// What the loops of the server know in memory and queries need. Thread-safe: loops set, queries read.
//
// Holds nothing durable: after a restart no agent is connected until it comes back, and counters begin at 0.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "fleet/finding.h"

namespace weft {

// One agent as its open stream shows it.
struct AgentPresence {
  absl::Time last_seen = absl::InfinitePast();         // server clock
  absl::Duration clock_offset = absl::ZeroDuration();  // agent wall clock minus server wall clock
  uint64_t spool_lost_records = 0;                     // as last reported
  uint64_t spool_damaged_files = 0;                    // as last reported
  bool operator==(const AgentPresence&) const = default;
};

// What ingest did since the process started.
struct IngestCounters {
  std::map<std::string, uint64_t> rejected;  // records by reason; reasons come from a fixed set
  uint64_t duplicates = 0;                   // records that came again
  uint64_t rejected_total() const;
};

class FleetView {
 public:
  explicit FleetView(absl::Time start_time);

  // The agent's stream is open and was heard of: at hello and at each heartbeat.
  void SetConnected(absl::string_view node_id, const AgentPresence& presence) WEFT_EXCLUDES(mutex_);
  // The stream closed. Harmless for a node that is not connected.
  void SetDisconnected(absl::string_view node_id) WEFT_EXCLUDES(mutex_);
  // Replaces the detector's levels.
  void SetLevels(std::vector<NodeLevel> levels) WEFT_EXCLUDES(mutex_);
  // Results stored but not yet seen by the detector.
  void SetDetectorLag(uint64_t results) WEFT_EXCLUDES(mutex_);
  void AddRejected(absl::string_view reason, uint64_t records) WEFT_EXCLUDES(mutex_);
  void AddDuplicates(uint64_t records) WEFT_EXCLUDES(mutex_);

  absl::Time start_time() const { return start_time_; }
  // Connected agents by node id.
  std::map<std::string, AgentPresence, std::less<>> Connected() const WEFT_EXCLUDES(mutex_);
  // When each agent was last heard of since the process started, also of those that left meanwhile.
  std::map<std::string, absl::Time, std::less<>> LastHeard() const WEFT_EXCLUDES(mutex_);
  uint64_t ConnectedCount() const WEFT_EXCLUDES(mutex_);
  // Never null; unchanging.
  std::shared_ptr<const std::vector<NodeLevel>> Levels() const WEFT_EXCLUDES(mutex_);
  uint64_t DetectorLag() const WEFT_EXCLUDES(mutex_);
  IngestCounters Counters() const WEFT_EXCLUDES(mutex_);

 private:
  const absl::Time start_time_;
  mutable Mutex mutex_;
  std::map<std::string, AgentPresence, std::less<>> connected_ WEFT_GUARDED_BY(mutex_);
  std::map<std::string, absl::Time, std::less<>> last_heard_ WEFT_GUARDED_BY(mutex_);
  std::shared_ptr<const std::vector<NodeLevel>> levels_ WEFT_GUARDED_BY(mutex_);
  uint64_t detector_lag_ WEFT_GUARDED_BY(mutex_) = 0;
  IngestCounters counters_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft
