#include "server/plan/run_tracker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"

namespace weft {
namespace {

bool IsSkip(Outcome outcome) {
  return outcome == Outcome::kSkippedBusy || outcome == Outcome::kSkippedMaintenance ||
         outcome == Outcome::kYielded;
}

constexpr size_t kMaxReasonBytes = 256;

const char* OutcomeText(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk:
      return "ok";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kTimedOut:
      return "timed out";
    case Outcome::kSkippedBusy:
      return "busy";
    case Outcome::kSkippedMaintenance:
      return "in maintenance";
    case Outcome::kRefused:
      return "refused";
    case Outcome::kPartnerMissing:
      return "partner missing";
    case Outcome::kYielded:
      return "yielded to a job";
  }
  return "unknown";
}

// The worst outcome speaks for the run.
RunState StateOf(Outcome outcome) {
  if (outcome == Outcome::kOk) return RunState::kOk;
  if (IsSkip(outcome)) return RunState::kSkipped;
  if (outcome == Outcome::kTimedOut || outcome == Outcome::kPartnerMissing) return RunState::kTimedOut;
  return RunState::kFailed;
}

int Badness(RunState state) {
  switch (state) {
    case RunState::kOk:
      return 0;
    case RunState::kSkipped:
      return 1;
    case RunState::kTimedOut:
      return 2;
    default:
      return 3;
  }
}

}  // namespace

std::string RunTracker::ReportText(const ActiveRun& active, size_t rank) const {
  const Participant& participant = active.participants[rank];
  return absl::StrCat(Name(active.run.participants[rank]), " reports: ", OutcomeText(participant.outcome),
                      participant.detail.empty() ? "" : absl::StrCat(" (", participant.detail, ")"));
}

std::string RunTracker::Name(absl::string_view node_id) const {
  return options_.display_name ? options_.display_name(node_id) : std::string(node_id);
}

RunTracker::Place RunTracker::Find(absl::string_view node_id, absl::string_view run_id) {
  const auto it = runs_.find(std::string(run_id));
  if (it == runs_.end()) return {};
  const std::vector<std::string>& ids = it->second.run.participants;
  const auto node = std::find(ids.begin(), ids.end(), node_id);
  if (node == ids.end()) return {};
  return {&it->second, static_cast<size_t>(node - ids.begin())};
}

RunTracker::ActiveRun& RunTracker::Insert(const Run& run, Phase phase, absl::Duration deadline,
                                          absl::Time phase_deadline) {
  ActiveRun& active = runs_[run.id];
  active.run = run;
  active.phase = phase;
  active.time_to_run = deadline;
  active.phase_deadline = phase_deadline;
  active.participants.resize(run.participants.size());
  return active;
}

TrackerOutput RunTracker::Begin(const Run& run, absl::Duration deadline, absl::Time now) {
  TrackerOutput output;
  if (runs_.count(run.id) != 0 || run.participants.empty()) return output;
  Insert(run, Phase::kLease, deadline, now + options_.lease_timeout);
  for (size_t rank = 0; rank < run.participants.size(); ++rank) {
    output.commands.push_back({run.participants[rank],
                               LeaseCommand{run.id, run.spec, static_cast<uint32_t>(rank),
                                            static_cast<uint32_t>(run.participants.size()),
                                            options_.lease_timeout + options_.rendezvous_timeout, deadline}});
  }
  return output;
}

TrackerOutput RunTracker::Resume(const Run& run, absl::Duration deadline, absl::Time now) {
  if (runs_.count(run.id) != 0 || run.participants.empty()) return {};
  const absl::Time end = run.plan_time + options_.lease_timeout + options_.rendezvous_timeout + deadline;
  // The upper bound keeps a plan time ahead of this clock from holding nodes for ever.
  const absl::Time bounded =
      std::min(end, now + options_.lease_timeout + options_.rendezvous_timeout + deadline);
  ActiveRun& active = Insert(run, Phase::kResults, deadline, std::max(bounded, now) + options_.result_grace);
  for (Participant& participant : active.participants) participant.accepted = participant.started = true;
  return {};
}

void RunTracker::Start(ActiveRun& active, size_t rank, const std::string& rendezvous, TrackerOutput& output) {
  active.participants[rank].started = true;
  output.commands.push_back({active.run.participants[rank], StartCommand{active.run.id, rendezvous}});
}

void RunTracker::StartFirst(ActiveRun& active, absl::Time now, TrackerOutput& output) {
  Start(active, 0, "", output);
  if (active.participants.size() == 1) {
    active.phase = Phase::kResults;
    active.phase_deadline = now + active.time_to_run + options_.result_grace;
    return;
  }
  active.phase = Phase::kRendezvous;
  active.phase_deadline = now + std::min(options_.rendezvous_timeout, active.time_to_run);
}

void RunTracker::StartOthers(ActiveRun& active, const std::string& rendezvous, absl::Time now,
                             TrackerOutput& output) {
  for (size_t rank = 1; rank < active.participants.size(); ++rank) Start(active, rank, rendezvous, output);
  active.phase = Phase::kResults;
  active.phase_deadline = now + active.time_to_run + options_.result_grace;
}

TrackerOutput RunTracker::OnLeaseReply(absl::string_view node_id, absl::string_view run_id, bool accepted,
                                       Outcome outcome, absl::string_view detail, absl::Time now) {
  TrackerOutput output;
  const Place place = Find(node_id, run_id);
  if (place.active == nullptr || place.active->phase != Phase::kLease || place.participant().accepted) {
    return output;
  }
  ActiveRun& active = *place.active;
  if (!accepted) {
    // A refusal is the probe's fault, not a lack of time: an operator has to mend the plan or the agent.
    const RunState state = outcome == Outcome::kRefused ? RunState::kFailed : RunState::kSkipped;
    std::string why = absl::StrCat(Name(node_id), " declined: ", OutcomeText(outcome));
    if (!detail.empty()) absl::StrAppend(&why, " (", detail, ")");
    place.participant().has_result = true;  // it holds nothing, so it needs no cancel
    output.declined.push_back({std::string(node_id), active.run.spec.name, outcome});
    Finish(active, state, why, now, output);
    return output;
  }
  place.participant().accepted = true;
  const auto has_accepted = [](const Participant& p) { return p.accepted; };
  if (std::all_of(active.participants.begin(), active.participants.end(), has_accepted)) {
    StartFirst(active, now, output);
  }
  return output;
}

TrackerOutput RunTracker::OnRendezvous(absl::string_view node_id, absl::string_view run_id,
                                       absl::string_view bytes, absl::Time now) {
  TrackerOutput output;
  const Place place = Find(node_id, run_id);
  if (place.active != nullptr && place.rank == 0 && place.active->phase == Phase::kRendezvous) {
    StartOthers(*place.active, std::string(bytes), now, output);
  }
  return output;
}

TrackerOutput RunTracker::OnResult(absl::string_view node_id, absl::string_view run_id, Outcome outcome,
                                   absl::string_view detail, absl::Time now) {
  TrackerOutput output;
  const Place place = Find(node_id, run_id);
  // A result of one that was not started is an agent's mistake; it must not end the run.
  if (place.active == nullptr || place.participant().has_result || !place.participant().started) {
    return output;
  }
  place.participant().has_result = true;
  place.participant().outcome = outcome;
  place.participant().detail = CutUtf8(detail, kMaxReasonBytes);
  ActiveRun& active = *place.active;
  if (IsSkip(outcome)) {
    // A job came. The others wait for one that is gone; what they report from now on is not their fault.
    Finish(active, RunState::kSkipped, ReportText(active, place.rank), now, output);
    return output;
  }
  const auto is_done = [](const Participant& p) { return p.has_result || !p.started; };
  // In the rendezvous phase only rank 0 is started: without its rendezvous the others have nothing to do.
  if (std::all_of(active.participants.begin(), active.participants.end(), is_done)) {
    FinishByResults(active, now, output);
  }
  return output;
}

TrackerOutput RunTracker::OnAgentGone(absl::string_view node_id, absl::Time now) {
  TrackerOutput output;
  std::vector<std::string> affected;
  for (const auto& [id, active] : runs_) affected.push_back(id);
  for (const std::string& id : affected) {
    const Place place = Find(node_id, id);
    if (place.active == nullptr || place.participant().started) continue;
    place.participant().has_result = true;  // nobody is there to cancel
    Finish(*place.active, RunState::kTimedOut,
           absl::StrCat("agent of ", Name(node_id), " went away before the start"), now, output);
  }
  return output;
}

void RunTracker::FinishByResults(ActiveRun& active, absl::Time now, TrackerOutput& output) {
  RunState state = RunState::kOk;
  std::vector<std::string> details;
  for (size_t rank = 0; rank < active.participants.size(); ++rank) {
    const Participant& participant = active.participants[rank];
    if (!participant.has_result || participant.outcome == Outcome::kOk) continue;
    const RunState own = StateOf(participant.outcome);
    if (Badness(own) > Badness(state)) state = own;
    details.push_back(ReportText(active, rank));
  }
  if (active.phase == Phase::kRendezvous && state == RunState::kOk) {
    state = RunState::kFailed;
    details.push_back(
        absl::StrCat(Name(active.run.participants[0]), " reports a result but offered no rendezvous"));
  }
  Finish(active, state, absl::StrJoin(details, "; "), now, output);
}

void RunTracker::TimeOut(ActiveRun& active, absl::Time now, TrackerOutput& output) {
  std::vector<std::string> missing;
  for (size_t rank = 0; rank < active.participants.size(); ++rank) {
    const Participant& p = active.participants[rank];
    const bool came = active.phase == Phase::kLease        ? p.accepted
                      : active.phase == Phase::kRendezvous ? rank != 0
                                                           : p.has_result;
    if (!came) missing.push_back(Name(active.run.participants[rank]));
  }
  const char* what = active.phase == Phase::kLease        ? "no answer to the lease"
                     : active.phase == Phase::kRendezvous ? "no rendezvous"
                                                          : "no result";
  Finish(active, RunState::kTimedOut, absl::StrCat(what, " from ", absl::StrJoin(missing, ", "), " in time"),
         now, output);
}

void RunTracker::Finish(ActiveRun& active, RunState state, const std::string& detail, absl::Time now,
                        TrackerOutput& output) {
  if (state != RunState::kOk) {
    for (size_t rank = 0; rank < active.participants.size(); ++rank) {
      if (active.participants[rank].has_result) continue;
      output.commands.push_back({active.run.participants[rank], CancelCommand{active.run.id, detail}});
    }
  }
  active.run.state = state;
  active.run.detail = detail;
  active.run.end_time = now;
  const std::string id = active.run.id;
  output.finished.push_back(std::move(active.run));
  runs_.erase(id);
}

TrackerOutput RunTracker::Tick(absl::Time now) {
  TrackerOutput output;
  std::vector<ActiveRun*> overdue;
  for (auto& [id, active] : runs_) {
    if (active.phase_deadline <= now) overdue.push_back(&active);
  }
  for (ActiveRun* active : overdue) TimeOut(*active, now, output);
  return output;
}

absl::Time RunTracker::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [id, active] : runs_) next = std::min(next, active.phase_deadline);
  return next;
}

std::set<std::string> RunTracker::BusyNodes() const {
  std::set<std::string> busy;
  for (const auto& [id, active] : runs_) {
    busy.insert(active.run.participants.begin(), active.run.participants.end());
  }
  return busy;
}

}  // namespace weft
