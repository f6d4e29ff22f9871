// Runs the planner and the run tracker on a thread of their own: events of agents in, leases and starts out.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/steady_time.h"
#include "base/worker.h"
#include "server/http/metrics.h"
#include "server/ingest/agent_events.h"
#include "server/ingest/agent_service.h"
#include "server/plan/planner.h"
#include "server/plan/run_tracker.h"
#include "store/store.h"

namespace weft {

// One probe that is run in rounds.
struct ProbeSchedule {
  PlannerOptions planner;
  absl::Duration deadline;   // from Start to the results of a run
  std::string cohort_label;  // site label that splits the fleet
};

// Push, SetSuspects and SetRequests from any thread; the rest from one.
class PlanLoop {
 public:
  // The first round waits `gather` after Recover, so that agents that come back find their places in it.
  // Declined leases are counted, since no result tells of them.
  PlanLoop(std::vector<ProbeSchedule> schedules, absl::Duration gather, Store& store, Clock& clock,
           AgentStreams& streams, MetricCounters& counters);
  // Takes up the runs and round numbers that the store remembers. Call once, before Start.
  absl::Status Recover();
  void Start();
  void Stop();

  // Waits for the loop to take it. The queue is as long as agents make it: each has at most a few events
  // under way.
  void Push(AgentEvent event) WEFT_EXCLUDES(mutex_);
  // Nodes that open findings name; their pairs go first.
  void SetSuspects(std::set<std::string> suspects) WEFT_EXCLUDES(mutex_);
  // Pairs that the detector wants probed next, the most wanted first; replaces the last ones. See Planner.
  void SetRequests(std::vector<ProbeRequest> requests) WEFT_EXCLUDES(mutex_);

 private:
  struct Schedule {
    ProbeSchedule settings;
    Planner planner;
  };
  struct LastLease {
    std::string run_id;
    Planner* planner = nullptr;
  };
  struct ConnectedNode {
    Node node;
    std::vector<std::string> probe_kinds;
    absl::Time last_success = absl::InfinitePast();
  };

  absl::Duration Step();
  absl::Time Now();
  void Apply(const AgentEvent& event, absl::Time now);
  void PlanRuns(Schedule& schedule, absl::Time now);
  std::vector<PlanNode> Available(const Schedule& schedule, const std::vector<MaintenanceWindow>& windows);
  absl::Status RememberRounds(Schedule& schedule, const std::vector<PlanNode>& nodes);
  void OnLeaseAnswered(const std::string& node_id, const LeaseAnswered& answer, absl::Time now);
  void Execute(TrackerOutput output);
  void StoreFinished();
  absl::Duration DeadlineOf(const Run& run) const;
  std::string DisplayName(absl::string_view node_id) const;

  const absl::Duration gather_;
  Store& store_;
  Clock& clock_;
  AgentStreams& streams_;
  MetricCounters& counters_;

  // Used by the loop's thread only.
  std::vector<Schedule> schedules_;  // never changes its size
  RunTracker tracker_;
  std::unique_ptr<SteadyTime> time_;
  absl::Time first_round_ = absl::InfinitePast();
  std::map<std::string, ConnectedNode> connected_;
  std::map<std::string, absl::Time> last_success_;  // of all nodes ever heard of
  std::map<std::string, std::string> hostnames_;
  std::map<std::string, LastLease> last_lease_;  // by node
  std::vector<Run> finished_;                    // not yet in the store

  Mutex mutex_;
  std::deque<AgentEvent> events_ WEFT_GUARDED_BY(mutex_);
  std::set<std::string> suspects_ WEFT_GUARDED_BY(mutex_);
  std::optional<std::vector<ProbeRequest>> requests_ WEFT_GUARDED_BY(mutex_);  // not yet with the planners
  Worker worker_;                                                              // last: stops first
};

}  // namespace weft
