// Everything that /metrics exposes, and how it is written. All metric names of the server are in this file.
//
// Bounds: series per node and per node and probe, never per pair; label values come from bounded sets or from
// the fleet's own nodes. A level that is older than three probe periods is withdrawn, so that Prometheus
// marks the series stale instead of drawing an old value for ever. Counters that may ever exist stand at 0
// from the start.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "fleet/finding.h"
#include "fleet/probe.h"
#include "store/store.h"
#include "weft/v1/fleet.pb.h"
#include "weft/v1/maintenance.pb.h"

namespace weft {

struct MetricName {
  const char* name;
  const char* help;
};

namespace metric {

// --- Probes, by node and probe ---
inline constexpr MetricName kBusBandwidth = {
    "weft_probe_bus_bandwidth_bytes_per_second",
    "Latest bus bandwidth of the node in the probe; withdrawn after three probe periods."};
inline constexpr MetricName kExpectedBandwidth = {"weft_probe_expected_bandwidth_bytes_per_second",
                                                  "Bus bandwidth that the node should reach in the probe."};
inline constexpr MetricName kBandwidthRatio = {"weft_probe_bandwidth_ratio",
                                               "Latest bus bandwidth over the expected one."};
inline constexpr MetricName kLastRun = {"weft_probe_last_run_timestamp_seconds",
                                        "When the node last took part in the probe, however it ended."};
inline constexpr MetricName kLastSuccess = {"weft_probe_last_success_timestamp_seconds",
                                            "When the node last took part in a successful run of the probe."};
inline constexpr MetricName kRuns = {
    "weft_probe_runs_total",
    "Results of the node in the probe, and leases that it declined, since the server started, by outcome."};
inline constexpr MetricName kUncountedRuns = {
    "weft_probe_runs_uncounted_total",
    "Results left out of weft_probe_runs_total because it has too many series already."};

// --- Nodes ---
inline constexpr MetricName kNodeState = {
    "weft_node_state_id",
    "0 unknown or stale, 1 ok, 2 degraded, 3 failed (agent missing), 4 degraded or failed but muted."};
inline constexpr MetricName kNodes = {"weft_nodes", "Known nodes by state, as in weft_node_state_id."};
inline constexpr MetricName kNodeMuted = {"weft_node_muted",
                                          "1 while a maintenance window covers the node, else 0."};
inline constexpr MetricName kNodeCoverage = {
    "weft_node_last_coverage_timestamp_seconds",
    "When the node last took part in a successful run of any probe."};
inline constexpr MetricName kNodeInfo = {"weft_node_info", "What the node is; always 1."};
inline constexpr MetricName kAgentsConnected = {"weft_agents_connected", "Open agent streams."};
inline constexpr MetricName kAgentLastSeen = {"weft_agent_last_seen_timestamp_seconds",
                                              "When the node's agent was last heard of."};
inline constexpr MetricName kAgentClockOffset = {"weft_agent_clock_offset_seconds",
                                                 "The agent's wall clock minus the server's."};

// --- Findings and maintenance ---
inline constexpr MetricName kRegressionsActive = {
    "weft_regressions_active", "Open findings by scope and severity, and whether a window mutes them."};
inline constexpr MetricName kRegressionsDetected = {"weft_regressions_detected_total",
                                                    "Findings opened since the server started."};
inline constexpr MetricName kMaintenanceActive = {
    "weft_maintenance_active", "1 while an occurrence of the maintenance window is open, else 0."};

// --- Ingest, store, detector ---
inline constexpr MetricName kIngestResults = {"weft_ingest_results_total",
                                              "Results stored since the server started."};
inline constexpr MetricName kIngestRejected = {"weft_ingest_rejected_total",
                                               "Records refused for good since the server started."};
inline constexpr MetricName kIngestDuplicates = {
    "weft_ingest_duplicates_total", "Records that came again and were ignored since the server started."};
inline constexpr MetricName kAgentLostRecords = {
    "weft_agent_lost_records", "Records that agents report lost in the present life of their spools."};
inline constexpr MetricName kAgentDamagedFiles = {
    "weft_agent_spool_damaged_files",
    "Files that agents report to have found damaged in the present life of their spools."};
inline constexpr MetricName kStoreRows = {
    "weft_store_rows", "Rows written since the database was made, retention apart, by table."};
inline constexpr MetricName kStoreBytes = {"weft_store_bytes",
                                           "Size of the database on disk, write-ahead log included."};
inline constexpr MetricName kStoreWalBytes = {"weft_store_wal_bytes", "Size of the write-ahead log."};
inline constexpr MetricName kDetectorLag = {
    "weft_detector_lag_seconds", "Age of the oldest stored result that the detector has not seen."};
inline constexpr MetricName kDetectorLagResults = {"weft_detector_lag_results",
                                                   "Stored results that the detector has not seen."};

// --- Webhooks ---
inline constexpr MetricName kDeliveries = {"weft_webhook_deliveries_total",
                                           "Attempts to notify since the server started, by outcome."};
inline constexpr MetricName kWebhookLastSuccess = {"weft_webhook_last_success_timestamp_seconds",
                                                   "When the receiver last accepted a notification."};
inline constexpr MetricName kWebhookQueue = {"weft_webhook_queue_length",
                                             "Notifications that wait for the receiver."};

// --- The server itself ---
inline constexpr MetricName kBuildInfo = {"weft_build_info", "Version of the server; always 1."};
inline constexpr MetricName kSourceUp = {"weft_metrics_source_up",
                                         "1 if this part of the page could be read for this scrape, else 0."};
inline constexpr MetricName kProcessStart = {"process_start_time_seconds", "When the process started."};
inline constexpr MetricName kProcessResident = {"process_resident_memory_bytes", "Resident memory."};

}  // namespace metric

// How an attempt to notify ended.
enum class DeliveryOutcome { kDelivered, kRetried, kDead, kDropped };

struct MetricCountersOptions {
  std::vector<std::string> probes;     // from the configuration
  std::vector<std::string> receivers;  // from the configuration
  // Bound on (node, probe) pairs counted; names beyond it go to weft_probe_runs_uncounted_total.
  size_t max_node_probes = 200'000;
};

// What the loops count as it happens. Thread-safe; a call costs a lock and a map lookup. Never throws.
class MetricCounters {
 public:
  explicit MetricCounters(const MetricCountersOptions& options);

  // One stored result of the node: its current hostname, plan time of the run; InfinitePast for a lease that
  // it declined.
  void CountRun(absl::string_view hostname, absl::string_view probe, Outcome outcome, absl::Time time)
      WEFT_EXCLUDES(mutex_);
  // An episode opened.
  void CountRegression(FindingScope scope, absl::string_view probe);
  // An attempt at a delivery ended, or a delivery was dropped before it was sent.
  void CountDelivery(absl::string_view receiver, DeliveryOutcome outcome, absl::Time time)
      WEFT_EXCLUDES(mutex_);
  // Results stored for the first time.
  void CountIngested(uint64_t results);

  // The counters as they stand.
  std::vector<prometheus::MetricFamily> Collect() const;
  // Latest run and success by (hostname, probe), hostnames made valid UTF-8; InfinitePast for none.
  struct ProbeTimes {
    absl::Time last_run = absl::InfinitePast();
    absl::Time last_success = absl::InfinitePast();
  };
  using NodeProbe = std::pair<std::string, std::string>;
  std::map<NodeProbe, ProbeTimes> Times() const WEFT_EXCLUDES(mutex_);
  std::map<std::string, absl::Time> WebhookSuccesses() const WEFT_EXCLUDES(mutex_);

 private:
  using CounterFamily = prometheus::Family<prometheus::Counter>;
  enum class Room { kKnown, kNew, kFull };
  Room NoteRun(const NodeProbe& key, Outcome outcome, absl::Time time) WEFT_EXCLUDES(mutex_);
  void AddRunCounters(const NodeProbe& key);

  const size_t max_node_probes_;
  prometheus::Registry registry_;
  CounterFamily& runs_;
  CounterFamily& regressions_;
  CounterFamily& deliveries_;
  prometheus::Counter& ingested_;
  prometheus::Counter& uncounted_runs_;
  mutable Mutex mutex_;
  std::map<NodeProbe, ProbeTimes> times_ WEFT_GUARDED_BY(mutex_);
  std::map<std::string, absl::Time> webhook_successes_ WEFT_GUARDED_BY(mutex_);
};

// What is read at each scrape. A part that could not be read stays empty and stands in `sources` as false.
struct MetricsSnapshot {
  absl::Time now = absl::InfinitePast();
  std::string version;
  absl::Time start_time = absl::InfinitePast();
  uint64_t resident_bytes = 0;  // 0: unknown, not exposed
  std::vector<v1::NodeStatus> nodes;
  std::vector<NodeLevel> levels;
  std::map<std::string, absl::Duration> probe_periods;  // by probe; 15 minutes for one that is not here
  std::vector<Episode> open_episodes;
  std::vector<v1::MaintenanceWindow> windows;  // those that are not over
  uint64_t agents_connected = 0;
  std::map<std::string, uint64_t> rejected;  // by reason
  uint64_t duplicates = 0;
  uint64_t lost_records = 0;
  uint64_t damaged_files = 0;
  std::optional<StoreStats> store;
  uint64_t detector_lag_results = 0;
  std::optional<absl::Duration> detector_lag;     // unknown: not exposed
  std::map<std::string, uint64_t> webhook_queue;  // by receiver; all receivers of the configuration
  std::map<std::string, bool> sources;
};

// The page in text format 0.0.4. Pure.
//
// Names from outside are made valid UTF-8. Where several nodes share a hostname (a machine set up anew), the
// one heard of last stands for it: a series twice in a page would make Prometheus refuse the whole page.
std::string RenderMetrics(const MetricsSnapshot& snapshot, const MetricCounters& counters);

}  // namespace weft
