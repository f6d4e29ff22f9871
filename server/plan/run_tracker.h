// What every active run waits for, and until when. Pure: events in, commands and finished runs out; no gRPC,
// no store, no clock; used by one thread.
//
// A run goes: all participants are leased; when all have accepted, rank 0 is started; its rendezvous starts
// the others; when every participant's result is stored, the run is finished. Each run finishes exactly once:
//   kOk        all results are OK
//   kFailed    a result says that the probe failed or was refused
//   kSkipped   a participant declined, or yielded
//   kTimedOut  a lease, rendezvous or result never came; the detail names who and the phase
// Events that fit no active run (unknown, over, of a node that is not in it, a second time) are ignored.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "fleet/probe.h"

namespace weft {

struct RunTrackerOptions {
  absl::Duration lease_timeout = absl::Seconds(5);        // from Begin to the last lease reply
  absl::Duration rendezvous_timeout = absl::Seconds(20);  // from rank 0's start to its rendezvous
  absl::Duration result_grace = absl::Seconds(10);  // past the deadline, for a result to travel and be stored
  // How details name a node; empty: by its id.
  std::function<std::string(absl::string_view node_id)> display_name;
};

struct LeaseCommand {
  std::string run_id;
  ProbeSpec spec;
  uint32_t rank = 0;
  uint32_t world_size = 0;
  absl::Duration start_within;  // the lease is void after it
  absl::Duration deadline;      // from Start to the result
};
struct StartCommand {
  std::string run_id;
  std::string rendezvous;  // empty for rank 0
};
struct CancelCommand {
  std::string run_id;
  std::string reason;
};

// For the agent of one node; if it is not connected, the command is lost and OnAgentGone tells the tracker.
struct Command {
  std::string node_id;
  std::variant<LeaseCommand, StartCommand, CancelCommand> body;
};

// A node would not take part in a run. No result of it will come.
struct Decline {
  std::string node_id;
  std::string probe;
  Outcome outcome = Outcome::kRefused;
};

struct TrackerOutput {
  std::vector<Command> commands;
  std::vector<Run> finished;  // state, end_time and detail are set
  std::vector<Decline> declined;
};

class RunTracker {
 public:
  explicit RunTracker(RunTrackerOptions options) : options_(std::move(options)) {}

  // Leases the run's participants. `deadline` is the time from Start to the results. The run is stored
  // already, and none of its participants is in another active run. A run that is already tracked is ignored.
  TrackerOutput Begin(const Run& run, absl::Duration deadline, absl::Time now);
  // A run found active in the store after a restart: nobody is told anything, only results are awaited, until
  // the run's deadline but at least for the grace. Hand over the results that are already stored by OnResult.
  TrackerOutput Resume(const Run& run, absl::Duration deadline, absl::Time now);
  // `outcome` and `detail` say why when not accepted.
  TrackerOutput OnLeaseReply(absl::string_view node_id, absl::string_view run_id, bool accepted,
                             Outcome outcome, absl::string_view detail, absl::Time now);
  TrackerOutput OnRendezvous(absl::string_view node_id, absl::string_view run_id, absl::string_view bytes,
                             absl::Time now);
  // The result is stored. `detail` is the participant's own, for people.
  TrackerOutput OnResult(absl::string_view node_id, absl::string_view run_id, Outcome outcome,
                         absl::string_view detail, absl::Time now);
  // The node's stream ended. A run that it has not been started for is given up; one that it runs is waited
  // for, since its result comes from the spool.
  TrackerOutput OnAgentGone(absl::string_view node_id, absl::Time now);
  // Finishes what is overdue. Call it at NextDeadline().
  TrackerOutput Tick(absl::Time now);

  // InfiniteFuture when nothing is active.
  absl::Time NextDeadline() const;
  size_t active_runs() const { return runs_.size(); }
  // Nodes in an active run.
  std::set<std::string> BusyNodes() const;

 private:
  enum class Phase { kLease, kRendezvous, kResults };
  struct Participant {
    bool accepted = false;
    bool started = false;
    bool has_result = false;
    Outcome outcome = Outcome::kOk;  // of the result
    std::string detail;              // of the result, cut
  };
  struct ActiveRun {
    Run run;
    Phase phase = Phase::kLease;
    absl::Duration time_to_run;             // from Start to the results
    absl::Time phase_deadline;              // of the current phase
    std::vector<Participant> participants;  // by rank
  };
  using Runs = std::map<std::string, ActiveRun>;

  // The active run and the node's rank in it, or no run.
  struct Place {
    ActiveRun* active = nullptr;
    size_t rank = 0;
    Participant& participant() const { return active->participants[rank]; }
  };
  Place Find(absl::string_view node_id, absl::string_view run_id);

  ActiveRun& Insert(const Run& run, Phase phase, absl::Duration deadline, absl::Time phase_deadline);
  void Start(ActiveRun& active, size_t rank, const std::string& rendezvous, TrackerOutput& output);
  void StartFirst(ActiveRun& active, absl::Time now, TrackerOutput& output);
  void StartOthers(ActiveRun& active, const std::string& rendezvous, absl::Time now, TrackerOutput& output);
  // Ends the run and cancels it where it may still be held or running.
  void Finish(ActiveRun& active, RunState state, const std::string& detail, absl::Time now,
              TrackerOutput& output);
  void FinishByResults(ActiveRun& active, absl::Time now, TrackerOutput& output);
  void TimeOut(ActiveRun& active, absl::Time now, TrackerOutput& output);
  // "gpu017 reports: timed out (why)".
  std::string ReportText(const ActiveRun& active, size_t rank) const;
  std::string Name(absl::string_view node_id) const;

  const RunTrackerOptions options_;
  Runs runs_;
};

}  // namespace weft
