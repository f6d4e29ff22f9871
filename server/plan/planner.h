// Decides who probes whom, and when, for one probe. Pure: no thread, no clock; used by one thread.
//
// Rounds. Every period a round begins. In each cohort the round puts the nodes that are connected then, in an
// order that is scattered but fixed (see ScatterKey), into groups (see RoundGroups), so that with pairs,
// stable membership, rounds that fit into their period and no requests everyone meets everyone within
// CycleLength(n) rounds, neighbours in turn on different leaves. Groups that the caps hold back wait within
// their round, requests first, then suspects, then the stalest; what is still waiting when the next round is
// due is dropped and counted.
//
// Requests, of pair probes alone. When a round begins, requested pairs are formed first; the others keep the
// partner that the round gives them where it is still free, and who lost it meets another who did.
//
// Decliners. The partners of a node that declined are put together once more within the round, so that busy
// nodes cost no more than their own place.
//
// Follow-ups. Requests that arrive within a round may give a node further runs in it, with other partners,
// at most `max_followups_per_round` of them for a node and max(4, a tenth of the round's runs) in all.
//
// Budget. Each node has a bucket of `run_burst` tokens that fills at `runs_per_period` tokens a period; a run
// that is not declined takes one from each participant, and a follow-up begins only where all of them have
// one left. So in any time T no node is in more than runs_per_period * T / period + run_burst runs: with runs
// of 4 s, periods of 15 min and 1.1 runs a period 0.49% of its time, and over a day at most 0.52%. Buckets
// are full after a restart.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
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
  size_t max_followups_per_round = 2;         // of one node
  double runs_per_period = 1.1;               // of one node, follow-ups included; at least 1
  double run_burst = 6;                       // of one node
  // From a decline until the partners are put together anew, so that their own answers are heard first.
  absl::Duration regroup_after = absl::Seconds(1);
};

// A connected node that may be probed.
struct PlanNode {
  std::string id;
  std::string cohort;  // value of the plan's cohort label; empty: the cohort of those without it
  bool in_maintenance = false;
  bool suspect = false;  // something is believed of it that a further run would settle
  absl::Time last_success = absl::InfinitePast();  // plan time of its last OK run
};

// A pair that would tell the detector most.
struct ProbeRequest {
  std::string node;
  std::string peer = {};  // of the same cohort; empty: one that is no suspect, and if possible not met lately
  std::string probe = {};  // name of the probe that is to measure it; empty: each pair probe
  bool operator==(const ProbeRequest&) const = default;
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

  // Replaces all requests, the most wanted first. One is dropped once its run begins, and comes back if that
  // run is declined; one whose nodes are not there waits. Follow-ups come from what was set since the last
  // Plan: a node that is being measured, or waits to be, is answered by that.
  void SetRequests(std::vector<ProbeRequest> requests);
  // The node declined its part in the last run that Plan gave it; call it for each node that did. It costs
  // nobody a token.
  void Decline(absl::string_view node_id, absl::Time now);

  // Runs to begin now, in order of urgency; plan_time is `now`. `available` holds each connected node once;
  // `busy_nodes` those in a run of any probe, `active_runs` the number of runs now active in the fleet. Call
  // it when it WantsToPlan and whenever a run ended.
  std::vector<Run> Plan(const std::vector<PlanNode>& available, const std::set<std::string>& busy_nodes,
                        size_t active_runs, absl::Time now);
  // False: Plan would give nothing.
  bool WantsToPlan(absl::Time now) const;

  // When the next round is due; InfinitePast before the first.
  absl::Time NextRoundTime() const { return next_round_; }
  // Runs of the current round that have not begun.
  size_t waiting_runs() const { return waiting_.size(); }
  // Runs that never began, since this object was made.
  uint64_t dropped_runs() const { return dropped_runs_; }
  // Rounds begun, all cohorts together, since this object was made.
  uint64_t rounds_begun() const { return rounds_begun_; }
  // Runs that follow-ups added, since this object was made.
  uint64_t followups() const { return followups_; }

 private:
  struct WaitingRun {
    std::vector<std::string> participants;  // by rank
    std::string cohort;
    uint64_t round = 0;
    std::optional<ProbeRequest> request = {};  // that it answers
  };
  // What is remembered of a node beyond one call.
  struct Memory {
    double tokens = 0;
    absl::Time filled = absl::InfinitePast();
    std::array<uint64_t, 8> met = {};  // scatter keys of the last partners, in a ring
    size_t next_met = 0;
    absl::Time declined = absl::InfinitePast();
    // In this round:
    size_t followups = 0;
    bool regrouped = false;
    size_t begun = 0;  // one more than the index of its last run in begun_
  };
  struct BegunRun {
    std::vector<std::string> participants;
    std::string cohort;
    absl::Time plan_time;
    std::optional<ProbeRequest> request;
    bool declined = false;
  };
  using NodeIndex = std::map<std::string, const PlanNode*>;
  using Ids = std::vector<std::string>;
  using Cohorts = std::map<std::string, Ids>;  // scattered

  bool RoundIsDue(absl::Time now) const;
  void SetNextRound(absl::Time now);
  void BeginRound(const NodeIndex& nodes, const std::set<std::string>& busy_nodes, absl::Time now);
  void BeginCohortRound(const std::string& cohort, const Ids& scattered, const std::set<std::string>& taken,
                        const NodeIndex& nodes);
  void AddRun(Ids participants, const std::string& cohort);
  void AddPairs(Ids ids, const std::string& cohort, const NodeIndex& nodes);

  // Moves at most `limit` requests that can be met to the waiting runs, and their nodes to `taken`.
  template <typename MayMeet>
  void ServeRequests(const NodeIndex& nodes, const Cohorts& cohorts, const std::set<std::string>& busy_nodes,
                     size_t limit, absl::Time now, std::set<std::string>& taken, const MayMeet& may_meet);
  template <typename Usable>
  std::string PartnerFor(const PlanNode& node, const Ids& scattered, const std::set<std::string>& asked_about,
                         const std::set<std::string>& busy_nodes, const NodeIndex& nodes, absl::Time now,
                         const Usable& usable) const;
  size_t FollowupsLeft() const;
  void AddFollowups(const NodeIndex& nodes, const std::set<std::string>& busy_nodes, absl::Time now);
  void RegroupSpares(const NodeIndex& nodes, absl::Time now);

  Memory& Remembered(const std::string& id, absl::Time now);
  void ForgetNodes(const NodeIndex& nodes, absl::Time now);
  bool MetLately(const std::string& cohort, const std::string& a, const std::string& b) const;
  void NoteBegun(WaitingRun run, absl::Time now);

  void SortByUrgency(const NodeIndex& nodes);
  Run MakeRun(const WaitingRun& waiting, const NodeIndex& nodes, absl::Time now) const;

  const PlannerOptions options_;
  std::map<std::string, uint64_t> rounds_;  // last round by cohort
  std::vector<WaitingRun> waiting_;
  std::vector<ProbeRequest> requests_;
  bool has_new_requests_ = false;  // since the last Plan
  std::unordered_map<std::string, Memory> memory_;
  // Of this round.
  // By cohort: those who lost their partner to a job, and from when on they may be given another.
  std::map<std::string, std::map<std::string, absl::Time>> spares_;
  std::vector<BegunRun> begun_;
  size_t round_runs_ = 0;
  size_t round_followups_ = 0;
  absl::Time next_followup_ = absl::InfinitePast();

  absl::Time next_round_ = absl::InfinitePast();
  uint64_t dropped_runs_ = 0;
  uint64_t rounds_begun_ = 0;
  uint64_t followups_ = 0;
};

}  // namespace weft
