// Store: everything that Weft remembers. One interface, one conformance suite (store/conformance_test.h) that
// every backend passes.
//
// Durability: a call that returned OK, or whose callback got OK, survives kill -9 and power loss.
// Atomicity: each call is one transaction, all or nothing.
// Threads: any; calls block unless a callback is named. Callbacks run on the store's writer thread: they must
// be short and must not call the store. Errors: kUnavailable when the backend is busy beyond its budget or
// the disk is full (nothing was written, try again later); kDataLoss when the database is damaged; kNotFound,
// kAlreadyExists, kAborted as each call says; kInvalidArgument for what cannot be stored (NaN, not UTF-8).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "fleet/finding.h"
#include "fleet/maintenance.h"
#include "fleet/node.h"
#include "fleet/probe.h"

namespace weft {

// Results that one agent sent together.
struct ResultAppend {
  struct Record {
    uint64_t sequence = 0;  // 1 to 2^63 - 2
    Result result;
  };
  std::string node_id;
  std::string epoch;
  std::vector<Record> records;
};

// What became of the records of one ResultAppend; the lists hold sequences and together cover them all.
struct ResultAppendOutcome {
  std::vector<uint64_t> stored;
  std::vector<uint64_t> duplicate;  // stored before, under this key or as the same rank's of the run; ignored
  std::vector<uint64_t> unknown_run;  // names a run that is not in the store
  std::vector<uint64_t> wrong_node;   // the node does not hold that rank of the run
};

// What one evaluation of detection and alerting changed; committed as a whole.
struct DetectionCommit {
  int64_t cursor = 0;  // id of the last result taken into account; never moves back
  std::vector<DetectorState> states;
  std::vector<Episode> episodes;             // inserted, or replaced by id
  std::vector<Delivery> deliveries;          // inserted; (receiver, episode, sequence) is unique
  std::vector<std::string> drop_deliveries;  // pending ones that became needless
};

struct StoreStats {
  uint64_t results = 0;  // stored since the database was made, retention apart
  uint64_t rounds = 0;   // begun since the database was made
  uint64_t bytes = 0;    // on disk, write-ahead log included
  uint64_t wal_bytes = 0;
};

// A stretch of a newest-first list. `before` is the key of the last row of the previous page (empty: the
// newest). A key that is no longer there ends the list.
struct PageRequest {
  int32_t size = 100;
  std::string before;
};

class Store {
 public:
  virtual ~Store() = default;

  // --- Nodes ---
  // Inserts or replaces by node id, keeping first_seen and last_success (AppendResults moves last_success
  // forward when it stores an OK result, in the same transaction).
  virtual absl::Status PutNode(const NodeRecord& record) = 0;
  virtual absl::StatusOr<std::vector<NodeRecord>> ListNodes() = 0;
  // Forgets the node; its runs, results and episodes stay until retention takes them, and so does what is
  // known of its spool, so that records that come after all are no duplicates. kNotFound if there is none.
  virtual absl::Status RemoveNode(absl::string_view node_id) = 0;

  // --- Runs ---
  // Stores a round's runs before any agent hears of them. The highest round number of each cohort and probe
  // is kept.
  virtual absl::Status PutRuns(const std::vector<Run>& runs) = 0;
  // Sets state, end_time and detail of runs that are still active; others are left alone.
  virtual absl::Status FinishRuns(const std::vector<Run>& runs) = 0;
  struct RunFilter {
    std::string node_id;  // empty: all
    std::string probe;    // name; empty: all
    absl::Time since = absl::InfinitePast();
  };
  // Newest first. The page key is the run id.
  virtual absl::StatusOr<std::vector<Run>> ListRuns(const RunFilter& filter, const PageRequest& page) = 0;
  virtual absl::StatusOr<Run> GetRun(absl::string_view id) = 0;  // kNotFound
  virtual absl::StatusOr<std::vector<Run>> ListActiveRuns() = 0;
  // Highest round planned so far for a cohort of a probe; 0 if none. Survives retention.
  virtual absl::StatusOr<uint64_t> LastRound(absl::string_view probe, absl::string_view cohort) = 0;

  // --- Results ---
  // Queues the records for the next group commit; `done` gets the outcome after it. A second call with the
  // same (node, epoch, sequence) is a duplicate whatever its payload, and so is a second result of one rank
  // of a run. Fails at once with kUnavailable, without calling `done`, when the write queue is full.
  virtual absl::Status AppendResults(ResultAppend append,
                                     std::function<void(absl::StatusOr<ResultAppendOutcome>)> done) = 0;
  // Results with id > `after`, in commit order.
  virtual absl::StatusOr<std::vector<StoredResult>> ReadResults(int64_t after, int32_t limit) = 0;
  // Results of the given runs.
  virtual absl::StatusOr<std::vector<StoredResult>> ResultsOfRuns(
      const std::vector<std::string>& run_ids) = 0;
  // Results of one node with plan_time >= since, newest first. The page key is the result id in decimal.
  virtual absl::StatusOr<std::vector<StoredResult>> NodeHistory(absl::string_view node_id, absl::Time since,
                                                                const PageRequest& page) = 0;

  // --- Detection and alerting ---
  virtual absl::Status CommitDetection(const DetectionCommit& commit) = 0;
  virtual absl::StatusOr<int64_t> DetectionCursor() = 0;
  virtual absl::StatusOr<std::vector<DetectorState>> LoadDetectorStates() = 0;
  virtual absl::StatusOr<std::vector<Episode>> OpenEpisodes() = 0;
  // Newest first; the page key is the episode id.
  struct EpisodeFilter {
    bool open_only = false;
    std::string node_id;  // empty: all
    bool include_info = false;
  };
  virtual absl::StatusOr<std::vector<Episode>> ListEpisodes(const EpisodeFilter& filter,
                                                            const PageRequest& page) = 0;
  virtual absl::StatusOr<Episode> GetEpisode(absl::string_view id) = 0;  // kNotFound

  // --- Outbox ---
  // All pending deliveries, oldest first within each (receiver, episode).
  virtual absl::StatusOr<std::vector<Delivery>> PendingDeliveries() = 0;
  // Writes back what an attempt changed (state, attempts, outcome_unknown, not_before, deliver_time, last_*).
  // Only pending rows change; kNotFound if the id is unknown or no longer pending.
  virtual absl::Status UpdateDelivery(const Delivery& delivery) = 0;
  // Newest first; the page key is the delivery id. `episode_id` empty: all.
  virtual absl::StatusOr<std::vector<Delivery>> ListDeliveries(absl::string_view episode_id,
                                                               const PageRequest& page) = 0;

  // --- Maintenance windows ---
  // A non-empty request_id that was used before: the same content returns the stored window, other content
  // kAlreadyExists.
  virtual absl::StatusOr<MaintenanceWindow> CreateWindow(const MaintenanceWindow& window) = 0;
  // Replaces the window if the stored revision is window.revision - 1, else kAborted; kNotFound if there is
  // none.
  virtual absl::Status UpdateWindow(const MaintenanceWindow& window) = 0;
  // All, newest first.
  virtual absl::StatusOr<std::vector<MaintenanceWindow>> ListWindows() = 0;

  // --- House-keeping ---
  // Deletes runs and results planned before `before`, except what an open episode's evidence names and what
  // detection has not yet read, and resolved episodes and finished deliveries older than that.
  // Works in bounded steps; returns the number of rows deleted (0: nothing left to do).
  virtual absl::StatusOr<uint64_t> DeleteOlderThan(absl::Time before, int32_t max_rows) = 0;
  virtual absl::StatusOr<StoreStats> Stats() = 0;
  // Whether a batch of results could be stored now: asks the disk for room and commits a mark of its own.
  // kUnavailable says what is in the way.
  virtual absl::Status TestWrite() = 0;
};

}  // namespace weft
