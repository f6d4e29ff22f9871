// Decides who probes whom, and when, for one probe. Pure: no thread, no clock; used by one thread.
//
// Every period a round begins. In each cohort the round puts the nodes that are connected then, in the order
// of their ids, into groups (see RoundGroups), so that with pairs, stable membership and rounds that fit into
// their period everyone meets everyone within CycleLength(n) rounds. Groups that the caps hold back wait
// within their round, suspects first, then the stalest; what is still waiting when the next round is due is
// dropped and counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "fleet/probe.h"

namespace weft {

struct PlannerOptions {
  ProbeSpec spec;
  absl::Duration period = absl::Minutes(15);  // from the start of one round to the next
  size_t max_concurrent_runs = 16;            // in the fleet, whatever the probe
  size_t group_size = 2;                      // participants of a run; at least 1
};

// A connected node that may be probed.
struct PlanNode {
  std::string id;
  std::string cohort;  // value of the plan's cohort label; empty: the cohort of those without it
  bool in_maintenance = false;
  bool suspect = false;  // something is believed of it that a further run would settle
  absl::Time last_success = absl::InfinitePast();  // plan time of its last OK run
};

// How long ago the node was last measured; infinite if never, zero if `last_success` lies ahead of `now`.
absl::Duration CoverageAge(absl::Time last_success, absl::Time now);

class Planner {
 public:
  explicit Planner(PlannerOptions options) : options_(std::move(options)) {}

  // True once the cohort has a round number. Before the first Plan with a cohort that is not known, give its
  // last round from the store, else numbers begin at 1 again.
  bool KnowsCohort(absl::string_view cohort) const { return rounds_.count(std::string(cohort)) != 0; }
  // Rounds of the cohort continue after `round`. Never moves back.
  void SetLastRound(absl::string_view cohort, uint64_t round);

  // Runs to begin now, in order of urgency; plan_time is `now`. `available` holds each connected node once;
  // `busy_nodes` those in a run of any probe, `active_runs` the number of runs now active in the fleet. Call
  // it when NextRoundTime() has come and whenever a run ended.
  std::vector<Run> Plan(const std::vector<PlanNode>& available, const std::set<std::string>& busy_nodes,
                        size_t active_runs, absl::Time now);

  // When the next round is due; InfinitePast before the first.
  absl::Time NextRoundTime() const { return next_round_; }
  // Runs of the current round that have not begun.
  size_t waiting_runs() const { return waiting_.size(); }
  // Runs that never began, since this object was made.
  uint64_t dropped_runs() const { return dropped_runs_; }
  // Rounds begun, all cohorts together, since this object was made.
  uint64_t rounds_begun() const { return rounds_begun_; }

 private:
  struct WaitingRun {
    std::vector<std::string> participants;  // by rank
    std::string cohort;
    uint64_t round = 0;
  };
  using NodeIndex = std::map<std::string, const PlanNode*>;

  bool RoundIsDue(absl::Time now);
  void BeginRound(const NodeIndex& nodes);
  void BeginCohortRound(const std::string& cohort, const std::vector<std::string>& sorted_ids);
  void SortByUrgency(const NodeIndex& nodes);
  Run MakeRun(const WaitingRun& waiting, const NodeIndex& nodes, absl::Time now) const;

  const PlannerOptions options_;
  std::map<std::string, uint64_t> rounds_;  // last round by cohort
  std::vector<WaitingRun> waiting_;
  absl::Time next_round_ = absl::InfinitePast();
  uint64_t dropped_runs_ = 0;
  uint64_t rounds_begun_ = 0;
};

}  // namespace weft
