#include "server/app/detect_loop.h"

#include <algorithm>
#include <utility>

#include "convert/finding_text.h"
#include "spdlog/spdlog.h"

namespace weft {
namespace {

constexpr int32_t kReadAtOnce = 1000;
constexpr absl::Duration kEvery = absl::Seconds(1);

std::vector<NodeView> ViewsOf(const std::vector<NodeRecord>& records, const FleetView& view) {
  // What the store knows of an agent that has just left may be minutes old: it is written a little later.
  const auto connected = view.Connected();
  const auto heard = view.LastHeard();
  std::vector<NodeView> views;
  for (const NodeRecord& record : records) {
    NodeView node;
    node.node_id = record.node.id;
    node.last_seen = record.last_seen;
    node.clock_offset = record.clock_offset;
    if (const auto found = heard.find(node.node_id); found != heard.end())
      node.last_seen = std::max(node.last_seen, found->second);
    if (const auto found = connected.find(node.node_id); found != connected.end()) {
      node.connected = true;
      node.clock_offset = found->second.clock_offset;
    }
    views.push_back(std::move(node));
  }
  return views;
}

// A missing agent stays missing until it is back or its node is removed: also after a restart, while others
// may still be coming, and whatever the wall clock does.
void HoldMissing(const std::vector<NodeView>& views, EpisodeInput& input) {
  std::set<std::string> away;
  for (const NodeView& view : views) {
    if (!view.connected) away.insert(view.node_id);
  }
  std::set<std::string> held;
  for (const Finding& finding : input.findings) held.insert(finding.Key());
  for (const Episode& episode : input.open_episodes) {
    const Finding& finding = episode.finding;
    if (finding.kind != FindingKind::kAgentMissing || held.count(finding.Key()) != 0) continue;
    if (!finding.node_ids.empty() && away.count(finding.node_ids[0]) != 0) input.findings.push_back(finding);
  }
}

std::string NamesOf(const Finding& finding, const NodeLookup& nodes) {
  v1::Finding named;
  named.set_scope(static_cast<v1::FindingScope>(finding.scope));
  named.set_part(finding.part);
  for (const std::string& id : finding.node_ids) {
    const Node* node = nodes(id);
    named.add_hostnames(node == nullptr ? id : node->hostname);
  }
  return SubjectOf(named);
}

}  // namespace

DetectLoop::DetectLoop(DetectLoopOptions options, Detector detector, Store& store, Clock& clock,
                       Mutex& outbox_mutex, FleetView& view, MetricCounters& counters)
    : options_(std::move(options)),
      detector_(std::move(detector)),
      store_(store),
      clock_(clock),
      outbox_mutex_(outbox_mutex),
      view_(view),
      counters_(counters),
      worker_("detect", clock, [this] { return Step(); }) {}

absl::Status DetectLoop::Recover() {
  absl::StatusOr<int64_t> cursor = store_.DetectionCursor();
  if (!cursor.ok()) return cursor.status();
  absl::StatusOr<std::vector<DetectorState>> states = store_.LoadDetectorStates();
  if (!states.ok()) return states.status();
  if (absl::Status status = detector_.Restore(*states); !status.ok()) return status;
  cursor_ = committed_cursor_ = *cursor;
  return absl::OkStatus();
}

absl::Duration DetectLoop::Step() {
  absl::StatusOr<std::vector<NodeRecord>> records = store_.ListNodes();
  absl::Status status = records.status();
  if (status.ok()) {
    std::map<std::string, Node> nodes;
    for (const NodeRecord& record : *records) nodes[record.node.id] = record.node;
    status = CatchUp(nodes);
    if (status.ok()) status = Evaluate(*records, nodes);
  }
  if (!status.ok()) spdlog::error("detection waits: {}", std::string(status.message()));
  return kEvery;
}

absl::Status DetectLoop::CatchUp(const std::map<std::string, Node>& nodes) {
  for (;;) {
    absl::StatusOr<std::vector<StoredResult>> results = store_.ReadResults(cursor_, kReadAtOnce);
    if (!results.ok()) return results.status();
    for (const StoredResult& stored : *results) {
      detector_.Observe(stored);
      cursor_ = stored.id;
      const auto node = nodes.find(stored.result.node_id);
      counters_.CountRun(node == nodes.end() ? stored.result.node_id : node->second.hostname, stored.probe,
                         stored.result.outcome, stored.plan_time);
    }
    counters_.CountIngested(results->size());
    const bool more = results->size() == static_cast<size_t>(kReadAtOnce);
    view_.SetDetectorLag(more ? results->size() : 0);
    if (!more) return absl::OkStatus();
  }
}

absl::StatusOr<EpisodeInput> DetectLoop::ReadInput(const std::vector<NodeRecord>& records,
                                                   const std::map<std::string, Node>& nodes, absl::Time now) {
  EpisodeInput input;
  absl::StatusOr<std::vector<Episode>> open = store_.OpenEpisodes();
  if (!open.ok()) return open.status();
  input.open_episodes = *std::move(open);
  input.findings = detector_.Findings();
  const std::vector<NodeView> views = ViewsOf(records, view_);
  for (Finding& finding : LivenessFindings(views, now, options_.liveness))
    input.findings.push_back(std::move(finding));
  HoldMissing(views, input);
  EndThoseOfUnknownNodes(nodes, input);

  absl::StatusOr<std::vector<MaintenanceWindow>> windows = store_.ListWindows();
  if (!windows.ok()) return windows.status();
  input.windows = *std::move(windows);
  input.nodes = [&nodes](absl::string_view id) -> const Node* {
    const auto found = nodes.find(std::string(id));
    return found == nodes.end() ? nullptr : &found->second;
  };
  input.receivers = options_.receivers;
  input.external_url = options_.external_url;

  absl::StatusOr<std::vector<Delivery>> pending = store_.PendingDeliveries();
  if (!pending.ok()) return pending.status();
  input.deliveries = *std::move(pending);
  for (const std::string& episode : EpisodesToLookUp(input, now)) {
    absl::StatusOr<std::vector<Delivery>> all = store_.ListDeliveries(episode, {1000, ""});
    if (!all.ok()) return all.status();
    for (Delivery& delivery : *all) {
      if (delivery.state != DeliveryState::kPending) input.deliveries.push_back(std::move(delivery));
    }
  }
  return input;
}

void DetectLoop::NoteRemoved(const std::string& node_id, const std::string& note) {
  {
    MutexLock lock(removed_mutex_);
    removed_[node_id] = note;
  }
  worker_.Wake();
}

// The detector remembers a removed node for as long as its memory lasts; nobody is to be told of it.
void DetectLoop::EndThoseOfUnknownNodes(const std::map<std::string, Node>& nodes, EpisodeInput& input) {
  std::erase_if(input.findings, [&](const Finding& finding) {
    return std::any_of(finding.node_ids.begin(), finding.node_ids.end(),
                       [&](const std::string& id) { return nodes.count(id) == 0; });
  });
  MutexLock lock(removed_mutex_);
  for (const auto& [id, node] : nodes) removed_.erase(id);  // back again
  for (const Episode& episode : input.open_episodes) {
    for (const std::string& id : episode.finding.node_ids) {
      if (const auto found = removed_.find(id); found != removed_.end())
        input.end_notes[episode.finding.Key()] = found->second;
    }
  }
}

absl::Status DetectLoop::Evaluate(const std::vector<NodeRecord>& records,
                                  const std::map<std::string, Node>& nodes) {
  const absl::Time now = clock_.Now();
  std::vector<Finding> findings;
  {
    MutexLock lock(outbox_mutex_);
    absl::StatusOr<EpisodeInput> input = ReadInput(records, nodes, now);
    if (!input.ok()) return input.status();
    EpisodeChanges changes = Reconcile(*input, now);
    const EpisodeChanges counted = changes;
    if (absl::Status status = Commit(std::move(changes)); !status.ok()) return status;
    CountChanges(counted, *input, now);
    findings = std::move(input->findings);
  }
  Publish(findings);
  return absl::OkStatus();
}

absl::Status DetectLoop::Commit(EpisodeChanges changes) {
  // States taken from the detector and not yet stored are kept until a commit succeeds. Newer ones of the
  // same key follow later in the list and win.
  std::vector<DetectorState> states = detector_.TakeChangedStates();
  std::move(states.begin(), states.end(), std::back_inserter(unsaved_states_));
  if (changes.empty() && unsaved_states_.empty() && cursor_ == committed_cursor_) return absl::OkStatus();
  DetectionCommit commit;
  commit.cursor = cursor_;
  commit.states = unsaved_states_;
  commit.episodes = std::move(changes.episodes);
  commit.deliveries = std::move(changes.deliveries);
  commit.drop_deliveries = std::move(changes.drop_deliveries);
  if (absl::Status status = store_.CommitDetection(commit); !status.ok()) return status;
  unsaved_states_.clear();
  committed_cursor_ = cursor_;
  return absl::OkStatus();
}

void DetectLoop::CountChanges(const EpisodeChanges& changes, const EpisodeInput& before, absl::Time now) {
  for (const Episode& episode : changes.episodes) {
    const bool known = std::any_of(before.open_episodes.begin(), before.open_episodes.end(),
                                   [&](const Episode& open) { return open.id == episode.id; });
    if (!known) {
      counters_.CountRegression(episode.finding.scope, episode.finding.probe);
      spdlog::info("finding {} opened: {}: {}", episode.id, NamesOf(episode.finding, before.nodes),
                   episode.finding.summary);
    } else if (!episode.is_open()) {
      spdlog::info("finding {} resolved: {}", episode.id, NamesOf(episode.finding, before.nodes));
    }
  }
  for (const Delivery& delivery : before.deliveries) {
    const std::vector<std::string>& dropped = changes.drop_deliveries;
    if (std::find(dropped.begin(), dropped.end(), delivery.id) == dropped.end()) continue;
    counters_.CountDelivery(delivery.receiver, DeliveryOutcome::kDropped, now);
  }
}

void DetectLoop::Publish(const std::vector<Finding>& findings) {
  view_.SetLevels(detector_.Levels());
  std::set<std::string> suspects;
  for (const Finding& finding : findings) suspects.insert(finding.node_ids.begin(), finding.node_ids.end());
  if (options_.on_committed) options_.on_committed(suspects);
}

}  // namespace weft
