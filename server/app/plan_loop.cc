#include "server/app/plan_loop.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "convert/convert.h"
#include "server/alert/window.h"
#include "spdlog/spdlog.h"

namespace weft {
namespace {

v1::ConnectResponse ToMessage(const Command& command) {
  v1::ConnectResponse message;
  if (const auto* lease = std::get_if<LeaseCommand>(&command.body)) {
    v1::Lease* out = message.mutable_lease();
    out->set_run_id(lease->run_id);
    ToProto(lease->spec, out->mutable_spec());
    out->set_rank(lease->rank);
    out->set_world_size(lease->world_size);
    ToProto(lease->start_within, out->mutable_start_within());
    ToProto(lease->deadline, out->mutable_deadline());
  } else if (const auto* start = std::get_if<StartCommand>(&command.body)) {
    message.mutable_start()->set_run_id(start->run_id);
    message.mutable_start()->set_rendezvous(start->rendezvous);
  } else if (const auto* cancel = std::get_if<CancelCommand>(&command.body)) {
    message.mutable_cancel()->set_run_id(cancel->run_id);
    message.mutable_cancel()->set_reason(cancel->reason);
  }
  return message;
}

// How long a run that a restart cut off keeps its nodes from new ones. One that was under way ends in this
// time or is declined for once; its result is stored whenever it comes.
constexpr absl::Duration kAwaitCutOffRuns = absl::Seconds(10);

// The kind's name in Hello.probe_kinds.
std::string KindOf(const ProbeSpec& spec) {
  const auto* gpu = std::get_if<GpuProbe>(&spec.kind);
  return gpu == nullptr ? "fabric" : gpu->kind;
}

}  // namespace

PlanLoop::PlanLoop(std::vector<ProbeSchedule> schedules, absl::Duration gather, Store& store, Clock& clock,
                   AgentStreams& streams, MetricCounters& counters)
    : gather_(gather),
      store_(store),
      clock_(clock),
      streams_(streams),
      counters_(counters),
      tracker_(RunTrackerOptions{.display_name = [this](absl::string_view id) { return DisplayName(id); }}),
      worker_("plan", clock, [this] { return Step(); }) {
  for (ProbeSchedule& settings : schedules) {
    Planner planner(settings.planner);
    schedules_.push_back({std::move(settings), std::move(planner)});
  }
}

absl::Status PlanLoop::Recover() {
  absl::StatusOr<std::vector<NodeRecord>> nodes = store_.ListNodes();
  if (!nodes.ok()) return nodes.status();
  for (const NodeRecord& record : *nodes) {
    last_success_[record.node.id] = record.last_success;
    hostnames_[record.node.id] = record.node.hostname;
  }
  absl::StatusOr<std::vector<Run>> newest = store_.ListRuns({}, {1, ""});
  if (!newest.ok()) return newest.status();
  absl::Time start = clock_.Now();
  if (!newest->empty()) start = std::max(start, newest->front().plan_time + absl::Milliseconds(1));
  time_ = std::make_unique<SteadyTime>(start, clock_.Monotonic());
  first_round_ = start + gather_;

  absl::StatusOr<std::vector<Run>> active = store_.ListActiveRuns();
  if (!active.ok()) return active.status();
  std::vector<std::string> ids;
  for (const Run& run : *active) {
    ids.push_back(run.id);
    Execute(tracker_.Resume(run, std::min(DeadlineOf(run), kAwaitCutOffRuns), start));
  }
  absl::StatusOr<std::vector<StoredResult>> results = store_.ResultsOfRuns(ids);
  if (!results.ok()) return results.status();
  for (const StoredResult& stored : *results) {
    Execute(tracker_.OnResult(stored.result.node_id, stored.result.run_id, stored.result.outcome,
                              stored.result.detail, start));
  }
  return absl::OkStatus();
}

void PlanLoop::Start() { worker_.Start(); }
void PlanLoop::Stop() { worker_.Stop(); }

void PlanLoop::Push(AgentEvent event) {
  {
    MutexLock lock(mutex_);
    events_.push_back(std::move(event));
  }
  worker_.Wake();
}

void PlanLoop::SetSuspects(std::set<std::string> suspects) {
  MutexLock lock(mutex_);
  suspects_ = std::move(suspects);
}

void PlanLoop::SetRequests(std::vector<ProbeRequest> requests) {
  MutexLock lock(mutex_);
  requests_ = std::move(requests);
}

absl::Time PlanLoop::Now() { return time_->At(clock_.Now(), clock_.Monotonic()); }

absl::Duration PlanLoop::Step() {
  const absl::Time now = Now();
  std::deque<AgentEvent> events;
  std::optional<std::vector<ProbeRequest>> requests;
  {
    MutexLock lock(mutex_);
    events.swap(events_);
    requests.swap(requests_);
  }
  for (const AgentEvent& event : events) Apply(event, now);
  Execute(tracker_.Tick(now));
  for (Schedule& schedule : schedules_) {
    if (requests) schedule.planner.SetRequests(*requests);
  }
  for (Schedule& schedule : schedules_) PlanRuns(schedule, now);
  StoreFinished();

  absl::Time next = tracker_.NextDeadline();
  for (const Schedule& schedule : schedules_) next = std::min(next, schedule.planner.NextRoundTime());
  return std::clamp(next - now, absl::Milliseconds(1), absl::Seconds(1));
}

void PlanLoop::Apply(const AgentEvent& event, absl::Time now) {
  if (const auto* connected = std::get_if<AgentConnected>(&event.what)) {
    // A new stream of a node that was connected: whatever it held before is gone for the tracker.
    if (connected_.count(event.node_id) != 0) Execute(tracker_.OnAgentGone(event.node_id, now));
    connected_[event.node_id] = {
        connected->record.node, connected->probe_kinds,
        last_success_.try_emplace(event.node_id, absl::InfinitePast()).first->second};
    hostnames_[event.node_id] = connected->record.node.hostname;
  } else if (std::holds_alternative<AgentGone>(event.what)) {
    connected_.erase(event.node_id);
    Execute(tracker_.OnAgentGone(event.node_id, now));
  } else if (const auto* answer = std::get_if<LeaseAnswered>(&event.what)) {
    OnLeaseAnswered(event.node_id, *answer, now);
  } else if (const auto* offer = std::get_if<RendezvousOffered>(&event.what)) {
    Execute(tracker_.OnRendezvous(event.node_id, offer->run_id, offer->bytes, now));
  } else if (const auto* stored = std::get_if<ResultStored>(&event.what)) {
    if (stored->outcome == Outcome::kOk) {
      last_success_[event.node_id] = now;
      if (const auto node = connected_.find(event.node_id); node != connected_.end())
        node->second.last_success = now;
    }
    Execute(tracker_.OnResult(event.node_id, stored->run_id, stored->outcome, stored->detail, now));
  }
}

void PlanLoop::OnLeaseAnswered(const std::string& node_id, const LeaseAnswered& answer, absl::Time now) {
  Execute(tracker_.OnLeaseReply(node_id, answer.run_id, answer.accepted, answer.outcome, answer.detail, now));
  // Also where another's answer has ended the run already.
  const auto last = last_lease_.find(node_id);
  if (!answer.accepted && last != last_lease_.end() && last->second.run_id == answer.run_id)
    last->second.planner->Decline(node_id, now);
}

std::vector<PlanNode> PlanLoop::Available(const Schedule& schedule,
                                          const std::vector<MaintenanceWindow>& windows) {
  const absl::Time wall = clock_.Now();
  std::set<std::string> suspects;
  {
    MutexLock lock(mutex_);
    suspects = suspects_;
  }
  std::vector<PlanNode> nodes;
  const std::string kind = KindOf(schedule.settings.planner.spec);
  for (const auto& [id, connected] : connected_) {
    const std::vector<std::string>& kinds = connected.probe_kinds;
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) continue;
    PlanNode node;
    node.id = id;
    const auto label = connected.node.labels.find(schedule.settings.cohort_label);
    if (label != connected.node.labels.end()) node.cohort = label->second;
    node.in_maintenance =
        !CoveredBy(LabelsOf(connected.node, schedule.settings.planner.spec.name), windows, wall).empty();
    node.suspect = suspects.count(id) != 0;
    node.last_success = connected.last_success;
    nodes.push_back(std::move(node));
  }
  return nodes;
}

absl::Status PlanLoop::RememberRounds(Schedule& schedule, const std::vector<PlanNode>& nodes) {
  for (const PlanNode& node : nodes) {
    if (schedule.planner.KnowsCohort(node.cohort)) continue;
    absl::StatusOr<uint64_t> round = store_.LastRound(schedule.settings.planner.spec.name, node.cohort);
    if (!round.ok()) return round.status();
    schedule.planner.SetLastRound(node.cohort, *round);
  }
  return absl::OkStatus();
}

void PlanLoop::PlanRuns(Schedule& schedule, absl::Time now) {
  if (now < first_round_) return;
  if (!schedule.planner.WantsToPlan(now)) return;
  absl::StatusOr<std::vector<MaintenanceWindow>> windows = store_.ListWindows();
  absl::Status status = windows.status();
  if (status.ok()) {
    const std::vector<PlanNode> nodes = Available(schedule, *windows);
    // A round of nobody would only put off the first one.
    if (nodes.size() < std::min<size_t>(schedule.settings.planner.group_size, 2)) return;
    status = RememberRounds(schedule, nodes);
    if (status.ok()) {
      const std::vector<Run> runs =
          schedule.planner.Plan(nodes, tracker_.BusyNodes(), tracker_.active_runs(), now);
      if (runs.empty()) return;
      status = store_.PutRuns(runs);
      for (const Run& run : runs) {
        if (!status.ok()) continue;
        for (const std::string& id : run.participants) last_lease_[id] = {run.id, &schedule.planner};
        Execute(tracker_.Begin(run, schedule.settings.deadline, now));
      }
    }
  }
  if (!status.ok()) spdlog::error("round not planned: {}", std::string(status.message()));
}

void PlanLoop::Execute(TrackerOutput output) {
  // It took no part in the run, so the run's time is not its own.
  for (const Decline& decline : output.declined) {
    counters_.CountRun(DisplayName(decline.node_id), decline.probe, decline.outcome, absl::InfinitePast());
  }
  for (const Command& command : output.commands) streams_.Send(command.node_id, ToMessage(command));
  for (Run& run : output.finished) {
    if (run.state != RunState::kOk) spdlog::info("run {} did not succeed: {}", run.id, run.detail);
    finished_.push_back(std::move(run));
  }
}

void PlanLoop::StoreFinished() {
  if (finished_.empty()) return;
  if (absl::Status status = store_.FinishRuns(finished_); !status.ok()) {
    spdlog::error("finished runs not stored, will try again: {}", std::string(status.message()));
    return;
  }
  finished_.clear();
}

absl::Duration PlanLoop::DeadlineOf(const Run& run) const {
  for (const Schedule& schedule : schedules_) {
    if (schedule.settings.planner.spec.name == run.spec.name) return schedule.settings.deadline;
  }
  return absl::Seconds(60);  // its probe left the configuration
}

std::string PlanLoop::DisplayName(absl::string_view node_id) const {
  const auto found = hostnames_.find(std::string(node_id));
  return found == hostnames_.end() ? std::string(node_id) : found->second;
}

}  // namespace weft
