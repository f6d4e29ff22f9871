// What the detector believes and what people are told of it. Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "fleet/probe.h"

namespace weft {

enum class FindingScope { kNode = 1, kNic = 2, kRail = 3, kLeaf = 4, kPair = 5, kFleet = 6 };

enum class FindingKind {
  kBandwidthDrop = 1,
  kBelowCohort = 2,
  kProbeFailure = 3,
  kAgentMissing = 4,
  kLatencyRise = 5,
  kTransient = 6,
  kClockSkew = 7,
};

enum class Severity { kInfo = 1, kWarning = 2, kCritical = 3 };

// One run behind a finding.
struct Evidence {
  std::string run_id;
  absl::Time time;
  std::string partner_node_id;
  double observed = 0;
  double expected = 0;
  Metric metric = Metric::kWriteBandwidth;
  bool operator==(const Evidence&) const = default;
};

// What the detector believes now about one subject. `Key()` names the subject and kind: at most one episode
// per key is open at a time.
struct Finding {
  FindingKind kind = FindingKind::kBandwidthDrop;
  FindingScope scope = FindingScope::kNode;
  std::vector<std::string> node_ids;  // sorted; one for node and NIC, two for pair, none for fleet
  std::string part;                   // NIC, rail or leaf where the scope has one
  std::string probe;
  Severity severity = Severity::kWarning;
  double ratio = 0;     // observed / expected (latency: expected / observed); 0 where it has no meaning
  double observed = 0;  // unit of the metric
  double expected = 0;
  double confidence = 0;                    // 0 to 1
  absl::Time since = absl::InfinitePast();  // first sample that shows it
  std::string summary;                      // one sentence
  std::vector<Evidence> evidence;           // newest first, at most 16

  std::string Key() const;
  bool operator==(const Finding&) const = default;
};

// A piece of the detector's memory, kept by the store and opaque to it.
struct DetectorState {
  std::string key;
  std::string blob;  // empty: forget the key
  bool operator==(const DetectorState&) const = default;
};

// Where one node stands in one probe, for tables and metrics.
struct NodeLevel {
  std::string node_id;
  std::string probe;
  Metric metric = Metric::kWriteBandwidth;
  double observed = 0;                     // latest level in the unit of the metric
  double expected = 0;                     // 0 while not yet known
  absl::Time time = absl::InfinitePast();  // plan time of the latest sample
  bool operator==(const NodeLevel&) const = default;
};

// One open-to-resolved life of a finding.
struct Episode {
  std::string id;   // time-ordered UUID; also the dedup key of its notifications
  Finding finding;  // as last updated
  absl::Time open_time = absl::InfinitePast();
  absl::Time resolve_time = absl::InfiniteFuture();  // InfiniteFuture while open
  std::vector<std::string> muted_by;                 // window ids at the last evaluation
  bool notified = false;                             // a trigger was queued for at least one receiver
  bool is_open() const { return resolve_time == absl::InfiniteFuture(); }
  bool operator==(const Episode&) const = default;
};

enum class DeliveryAction { kTrigger = 1, kResolve = 2 };
enum class DeliveryState { kPending = 1, kDelivered = 2, kDead = 3, kDropped = 4 };

// One notification to one receiver: a row of the outbox.
struct Delivery {
  std::string id;  // webhook-id: the same for all attempts, no dot inside
  std::string receiver;
  std::string episode_id;
  DeliveryAction action = DeliveryAction::kTrigger;
  uint32_t sequence = 0;  // rises within (receiver, episode), from 1
  std::string body;       // the exact bytes that are signed and sent
  DeliveryState state = DeliveryState::kPending;
  uint32_t attempts = 0;
  bool outcome_unknown = false;  // an attempt may have been accepted (time-out after send)
  absl::Time not_before = absl::InfinitePast();
  absl::Time create_time = absl::InfinitePast();
  absl::Time deliver_time = absl::InfiniteFuture();
  int32_t last_status = 0;
  std::string last_error;
  bool operator==(const Delivery&) const = default;
};

}  // namespace weft
