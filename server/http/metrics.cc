#include "server/http/metrics.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <exception>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/text.h"
#include "convert/convert.h"
#include "spdlog/spdlog.h"
#include "weft/v1/agent.pb.h"

namespace weft {
namespace {

using prometheus::ClientMetric;
using prometheus::Labels;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr absl::Duration kDefaultProbePeriod = absl::Minutes(15);
constexpr int kFreshPeriods = 3;

constexpr std::array kOutcomes = {Outcome::kOk,
                                  Outcome::kFailed,
                                  Outcome::kTimedOut,
                                  Outcome::kSkippedBusy,
                                  Outcome::kSkippedMaintenance,
                                  Outcome::kRefused,
                                  Outcome::kPartnerMissing,
                                  Outcome::kYielded};
constexpr std::array kScopes = {FindingScope::kNode, FindingScope::kNic,  FindingScope::kRail,
                                FindingScope::kLeaf, FindingScope::kPair, FindingScope::kFleet};
constexpr std::array kSeverities = {Severity::kInfo, Severity::kWarning, Severity::kCritical};
constexpr std::array kDeliveryOutcomes = {DeliveryOutcome::kDelivered, DeliveryOutcome::kRetried,
                                          DeliveryOutcome::kDead, DeliveryOutcome::kDropped};
constexpr std::array kStates = {"unknown", "ok", "degraded", "failed", "muted"};

const char* Label(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk:
      return "ok";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kTimedOut:
      return "timeout";
    case Outcome::kSkippedBusy:
      return "skipped_busy";
    case Outcome::kSkippedMaintenance:
      return "skipped_maintenance";
    case Outcome::kRefused:
      return "refused";
    case Outcome::kPartnerMissing:
      return "partner_missing";
    case Outcome::kYielded:
      return "yielded";
  }
  return "unknown";
}

const char* Label(FindingScope scope) {
  switch (scope) {
    case FindingScope::kNode:
      return "node";
    case FindingScope::kNic:
      return "nic";
    case FindingScope::kRail:
      return "rail";
    case FindingScope::kLeaf:
      return "leaf";
    case FindingScope::kPair:
      return "pair";
    case FindingScope::kFleet:
      return "fleet";
  }
  return "unknown";
}

const char* Label(Severity severity) {
  switch (severity) {
    case Severity::kInfo:
      return "info";
    case Severity::kWarning:
      return "warning";
    case Severity::kCritical:
      return "critical";
  }
  return "unknown";
}

const char* Label(DeliveryOutcome outcome) {
  switch (outcome) {
    case DeliveryOutcome::kDelivered:
      return "delivered";
    case DeliveryOutcome::kRetried:
      return "retried";
    case DeliveryOutcome::kDead:
      return "dead";
    case DeliveryOutcome::kDropped:
      return "dropped";
  }
  return "unknown";
}

const char* Label(bool value) { return value ? "true" : "false"; }

std::string Clean(absl::string_view text) { return ToValidUtf8(text); }

double Seconds(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

// --- Counters ---

prometheus::Family<prometheus::Counter>& Build(prometheus::Registry& registry, const MetricName& name) {
  return prometheus::BuildCounter().Name(name.name).Help(name.help).Register(registry);
}

// The library throws on what it takes for a bad label. A count is not worth a crash.
void Increment(prometheus::Family<prometheus::Counter>& family, const Labels& labels, double by) {
  try {
    family.Add(labels).Increment(by);
  } catch (const std::exception& error) {
    spdlog::error("cannot count in a metric: {}", EscapeControl(error.what()));
  }
}

// --- Families made at each scrape ---

class Page {
 public:
  // The family to add to until the next call.
  void Begin(const MetricName& name, MetricType type = MetricType::Gauge) {
    families_.push_back({name.name, name.help, type, {}});
  }
  void Add(const std::vector<ClientMetric::Label>& labels, double value) {
    ClientMetric metric;
    metric.label = labels;
    metric.gauge.value = value;
    metric.counter.value = value;
    families_.back().metric.push_back(std::move(metric));
  }
  void AddTime(const std::vector<ClientMetric::Label>& labels, absl::Time time) {
    if (time != absl::InfinitePast()) Add(labels, Seconds(time));
  }
  void AddAll(std::vector<MetricFamily> families) {
    for (MetricFamily& family : families) families_.push_back(std::move(family));
  }
  std::string Text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  std::vector<MetricFamily> families_;
};

// Nodes by the label they go by. One per label.
using NodesByLabel = std::map<std::string, const v1::NodeStatus*>;

absl::Time LastSeen(const v1::NodeStatus& node) {
  return node.has_last_seen_time() ? FromProto(node.last_seen_time()) : absl::InfinitePast();
}

NodesByLabel LabelNodes(const std::vector<v1::NodeStatus>& nodes) {
  NodesByLabel labelled;
  for (const v1::NodeStatus& node : nodes) {
    const v1::NodeStatus*& slot = labelled[Clean(node.node().hostname())];
    if (slot == nullptr || LastSeen(node) > LastSeen(*slot)) slot = &node;
  }
  return labelled;
}

int StateId(const v1::NodeStatus& node) {
  switch (node.state()) {
    case v1::NODE_STATE_OK:
      return 1;
    case v1::NODE_STATE_DEGRADED:
      return node.muted() ? 4 : 2;
    case v1::NODE_STATE_MISSING:
      return node.muted() ? 4 : 3;
    default:
      return 0;
  }
}

// What a node shows in one probe, latest sample only.
using Levels = std::map<MetricCounters::NodeProbe, const NodeLevel*>;

Levels LabelLevels(const MetricsSnapshot& snapshot, const NodesByLabel& nodes) {
  std::map<std::string, std::string> label_of_id;
  for (const auto& [label, node] : nodes) label_of_id[node->node().node_id()] = label;
  Levels levels;
  for (const NodeLevel& level : snapshot.levels) {
    auto label = label_of_id.find(level.node_id);
    if (label == label_of_id.end() || level.metric != Metric::kWriteBandwidth) continue;
    const NodeLevel*& slot = levels[{label->second, Clean(level.probe)}];
    if (slot == nullptr || level.time > slot->time) slot = &level;
  }
  return levels;
}

bool IsFresh(const NodeLevel& level, const MetricsSnapshot& snapshot) {
  auto period = snapshot.probe_periods.find(level.probe);
  const absl::Duration each = period == snapshot.probe_periods.end() ? kDefaultProbePeriod : period->second;
  return snapshot.now - level.time <= kFreshPeriods * each;
}

std::vector<ClientMetric::Label> NodeProbeLabels(const MetricCounters::NodeProbe& key) {
  return {{"node", key.first}, {"probe", key.second}};
}

void AddLevels(const MetricsSnapshot& snapshot, const Levels& levels, Page& page) {
  Levels fresh;
  for (const auto& [key, level] : levels) {
    if (IsFresh(*level, snapshot)) fresh[key] = level;
  }
  page.Begin(metric::kBusBandwidth);
  for (const auto& [key, level] : fresh) page.Add(NodeProbeLabels(key), level->observed);
  page.Begin(metric::kExpectedBandwidth);
  for (const auto& [key, level] : fresh) {
    if (level->expected > 0) page.Add(NodeProbeLabels(key), level->expected);
  }
  page.Begin(metric::kBandwidthRatio);
  for (const auto& [key, level] : fresh) {
    if (level->expected > 0) page.Add(NodeProbeLabels(key), level->observed / level->expected);
  }
}

// A level is a successful sample too; it outlives a restart of the server, the counters' memory does not.
void AddProbeTimes(const Levels& levels, const NodesByLabel& nodes, const MetricCounters& counters,
                   Page& page) {
  auto times = counters.Times();
  for (const auto& [key, level] : levels) {
    auto& time = times[key];
    time.last_run = std::max(time.last_run, level->time);
    time.last_success = std::max(time.last_success, level->time);
  }
  std::erase_if(times, [&](const auto& entry) { return !nodes.contains(entry.first.first); });
  page.Begin(metric::kLastRun);
  for (const auto& [key, time] : times) page.AddTime(NodeProbeLabels(key), time.last_run);
  page.Begin(metric::kLastSuccess);
  for (const auto& [key, time] : times) page.AddTime(NodeProbeLabels(key), time.last_success);
}

std::string ValueOr(const google::protobuf::Map<std::string, std::string>& map, const std::string& key) {
  auto found = map.find(key);
  return found == map.end() ? "" : Clean(found->second);
}

void AddNodeInfo(const NodesByLabel& nodes, Page& page) {
  page.Begin(metric::kNodeInfo);
  for (const auto& [label, status] : nodes) {
    const v1::Node& node = status->node();
    page.Add({{"node", label},
              {"node_id", Clean(node.node_id())},
              {"rack", ValueOr(node.labels(), "rack")},
              {"leaf", ValueOr(node.labels(), "leaf")},
              {"cohort", ValueOr(node.labels(), "cohort")},
              {"gpu_model", node.gpus().empty() ? "" : Clean(node.gpus(0).model())},
              {"agent_version", ValueOr(node.versions(), "agent")}},
             1);
  }
}

void AddNodeStates(const NodesByLabel& nodes, Page& page) {
  std::array<uint64_t, kStates.size()> counts{};
  page.Begin(metric::kNodeState);
  for (const auto& [label, node] : nodes) {
    const int state = StateId(*node);
    ++counts[static_cast<size_t>(state)];
    page.Add({{"node", label}}, state);
  }
  page.Begin(metric::kNodes);
  for (size_t i = 0; i < kStates.size(); ++i) {
    page.Add({{"state", kStates[i]}}, static_cast<double>(counts[i]));
  }
}

void AddNodes(const NodesByLabel& nodes, Page& page) {
  AddNodeStates(nodes, page);
  AddNodeInfo(nodes, page);
  page.Begin(metric::kNodeMuted);
  for (const auto& [label, node] : nodes) page.Add({{"node", label}}, node->muted() ? 1 : 0);
  page.Begin(metric::kAgentLastSeen);
  for (const auto& [label, node] : nodes) page.AddTime({{"node", label}}, LastSeen(*node));
  page.Begin(metric::kNodeCoverage);
  for (const auto& [label, node] : nodes) {
    if (node->has_last_success_time()) page.AddTime({{"node", label}}, FromProto(node->last_success_time()));
  }
  page.Begin(metric::kAgentClockOffset);
  for (const auto& [label, node] : nodes) {
    if (!node->has_clock_offset()) continue;
    page.Add({{"node", label}}, absl::ToDoubleSeconds(FromProto(node->clock_offset())));
  }
}

void AddRegressions(const std::vector<Episode>& episodes, Page& page) {
  std::map<std::tuple<FindingScope, Severity, bool>, uint64_t> counts;
  for (const Episode& episode : episodes) {
    ++counts[{episode.finding.scope, episode.finding.severity, !episode.muted_by.empty()}];
  }
  page.Begin(metric::kRegressionsActive);
  for (FindingScope scope : kScopes) {
    for (Severity severity : kSeverities) {
      for (bool muted : {false, true}) {
        page.Add({{"scope", Label(scope)}, {"severity", Label(severity)}, {"muted", Label(muted)}},
                 static_cast<double>(counts[{scope, severity, muted}]));
      }
    }
  }
}

void AddWindows(const std::vector<v1::MaintenanceWindow>& windows, Page& page) {
  std::map<std::string, bool> active;
  for (const auto& window : windows) {
    active[Clean(window.window_id())] = window.state() == v1::WINDOW_STATE_ACTIVE;
  }
  page.Begin(metric::kMaintenanceActive);
  for (const auto& [id, is_active] : active) page.Add({{"window", id}}, is_active ? 1 : 0);
}

// Label of a reason: "REJECT_REASON_BAD_NUMBER" and "bad_number" are the same.
std::string ReasonLabel(absl::string_view reason) {
  return absl::AsciiStrToLower(absl::StripPrefix(Clean(reason), "REJECT_REASON_"));
}

void AddIngest(const MetricsSnapshot& snapshot, Page& page) {
  std::map<std::string, uint64_t> rejected;
  const auto* reasons = v1::RejectReason_descriptor();
  for (int i = 0; i < reasons->value_count(); ++i) {
    if (reasons->value(i)->number() != 0) rejected[ReasonLabel(reasons->value(i)->name())] = 0;
  }
  for (const auto& [reason, records] : snapshot.rejected) rejected[ReasonLabel(reason)] += records;
  page.Begin(metric::kIngestRejected, MetricType::Counter);
  for (const auto& [reason, records] : rejected) {
    page.Add({{"reason", reason}}, static_cast<double>(records));
  }
  page.Begin(metric::kIngestDuplicates, MetricType::Counter);
  page.Add({}, static_cast<double>(snapshot.duplicates));
  page.Begin(metric::kAgentLostRecords);
  page.Add({}, static_cast<double>(snapshot.lost_records));
  page.Begin(metric::kAgentDamagedFiles);
  page.Add({}, static_cast<double>(snapshot.damaged_files));
}

void AddStore(const MetricsSnapshot& snapshot, Page& page) {
  page.Begin(metric::kDetectorLagResults);
  page.Add({}, static_cast<double>(snapshot.detector_lag_results));
  if (snapshot.detector_lag) {
    page.Begin(metric::kDetectorLag);
    page.Add({}, absl::ToDoubleSeconds(*snapshot.detector_lag));
  }
  if (!snapshot.store) return;
  page.Begin(metric::kStoreRows);
  page.Add({{"table", "result"}}, static_cast<double>(snapshot.store->results));
  page.Add({{"table", "round"}}, static_cast<double>(snapshot.store->rounds));
  page.Begin(metric::kStoreBytes);
  page.Add({}, static_cast<double>(snapshot.store->bytes));
  page.Begin(metric::kStoreWalBytes);
  page.Add({}, static_cast<double>(snapshot.store->wal_bytes));
}

void AddWebhooks(const MetricsSnapshot& snapshot, const MetricCounters& counters, Page& page) {
  page.Begin(metric::kWebhookQueue);
  for (const auto& [receiver, length] : snapshot.webhook_queue) {
    page.Add({{"receiver", Clean(receiver)}}, static_cast<double>(length));
  }
  page.Begin(metric::kWebhookLastSuccess);
  for (const auto& [receiver, time] : counters.WebhookSuccesses()) {
    page.AddTime({{"receiver", receiver}}, time);
  }
}

void AddServer(const MetricsSnapshot& snapshot, Page& page) {
  page.Begin(metric::kBuildInfo);
  page.Add({{"version", Clean(snapshot.version)}}, 1);
  page.Begin(metric::kAgentsConnected);
  page.Add({}, static_cast<double>(snapshot.agents_connected));
  page.Begin(metric::kSourceUp);
  for (const auto& [source, is_up] : snapshot.sources) page.Add({{"source", source}}, is_up ? 1 : 0);
  page.Begin(metric::kProcessStart);
  page.AddTime({}, snapshot.start_time);
  if (snapshot.resident_bytes == 0) return;
  page.Begin(metric::kProcessResident);
  page.Add({}, static_cast<double>(snapshot.resident_bytes));
}

}  // namespace

MetricCounters::MetricCounters(const MetricCountersOptions& options)
    : max_node_probes_(options.max_node_probes),
      runs_(Build(registry_, metric::kRuns)),
      regressions_(Build(registry_, metric::kRegressionsDetected)),
      deliveries_(Build(registry_, metric::kDeliveries)),
      ingested_(Build(registry_, metric::kIngestResults).Add({})),
      uncounted_runs_(Build(registry_, metric::kUncountedRuns).Add({})) {
  for (const std::string& probe : options.probes) {
    for (FindingScope scope : kScopes) {
      Increment(regressions_, {{"scope", Label(scope)}, {"probe", Clean(probe)}}, 0);
    }
  }
  for (const std::string& receiver : options.receivers) {
    for (DeliveryOutcome outcome : kDeliveryOutcomes) {
      Increment(deliveries_, {{"receiver", Clean(receiver)}, {"outcome", Label(outcome)}}, 0);
    }
  }
}

MetricCounters::Room MetricCounters::NoteRun(const NodeProbe& key, Outcome outcome, absl::Time time) {
  MutexLock lock(mutex_);
  auto found = times_.find(key);
  const bool is_new = found == times_.end();
  if (is_new) {
    if (times_.size() >= max_node_probes_) return Room::kFull;
    found = times_.emplace(key, ProbeTimes{}).first;
  }
  ProbeTimes& times = found->second;
  times.last_run = std::max(times.last_run, time);
  if (outcome == Outcome::kOk) times.last_success = std::max(times.last_success, time);
  return is_new ? Room::kNew : Room::kKnown;
}

// All outcomes of a pair appear together, the ones that did not happen at 0.
void MetricCounters::AddRunCounters(const NodeProbe& key) {
  for (Outcome outcome : kOutcomes) {
    Increment(runs_, {{"node", key.first}, {"probe", key.second}, {"outcome", Label(outcome)}}, 0);
  }
}

void MetricCounters::CountRun(absl::string_view hostname, absl::string_view probe, Outcome outcome,
                              absl::Time time) {
  const NodeProbe key(Clean(hostname), Clean(probe));
  const Room room = NoteRun(key, outcome, time);
  if (room == Room::kFull) {
    uncounted_runs_.Increment();
    return;
  }
  if (room == Room::kNew) AddRunCounters(key);
  Increment(runs_, {{"node", key.first}, {"probe", key.second}, {"outcome", Label(outcome)}}, 1);
}

void MetricCounters::CountRegression(FindingScope scope, absl::string_view probe) {
  Increment(regressions_, {{"scope", Label(scope)}, {"probe", Clean(probe)}}, 1);
}

void MetricCounters::CountDelivery(absl::string_view receiver, DeliveryOutcome outcome, absl::Time time) {
  const std::string name = Clean(receiver);
  Increment(deliveries_, {{"receiver", name}, {"outcome", Label(outcome)}}, 1);
  if (outcome != DeliveryOutcome::kDelivered) return;
  MutexLock lock(mutex_);
  webhook_successes_[name] = time;
}

void MetricCounters::CountIngested(uint64_t results) { ingested_.Increment(static_cast<double>(results)); }

std::vector<MetricFamily> MetricCounters::Collect() const { return registry_.Collect(); }

std::map<MetricCounters::NodeProbe, MetricCounters::ProbeTimes> MetricCounters::Times() const {
  MutexLock lock(mutex_);
  return times_;
}

std::map<std::string, absl::Time> MetricCounters::WebhookSuccesses() const {
  MutexLock lock(mutex_);
  return webhook_successes_;
}

std::string RenderMetrics(const MetricsSnapshot& snapshot, const MetricCounters& counters) {
  const NodesByLabel nodes = LabelNodes(snapshot.nodes);
  const Levels levels = LabelLevels(snapshot, nodes);
  Page page;
  AddServer(snapshot, page);
  AddNodes(nodes, page);
  AddLevels(snapshot, levels, page);
  AddProbeTimes(levels, nodes, counters, page);
  AddRegressions(snapshot.open_episodes, page);
  AddWindows(snapshot.windows, page);
  AddIngest(snapshot, page);
  AddStore(snapshot, page);
  AddWebhooks(snapshot, counters, page);
  page.AddAll(counters.Collect());
  return page.Text();
}

}  // namespace weft
