#include "bench/sim/scenario.h"

#include <algorithm>
#include <array>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "bench/sim/scenario.pb.h"
#include "convert/yaml.h"

namespace weft::sim {
namespace {

constexpr size_t kMostNodes = 200'000;
constexpr size_t kMostRails = 64;
constexpr size_t kMostDays = 366;

using google::protobuf::Duration;

absl::Duration FromProto(const Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

// Gathers what is wrong with a scenario.
class Checker {
 public:
  explicit Checker(absl::string_view name) : name_(name) {}
  void Require(bool holds, absl::string_view where, absl::string_view what) {
    if (!holds) problems_.push_back(absl::StrCat(name_, ": ", where, " ", what));
  }
  absl::Status status() const {
    if (problems_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrJoin(problems_, "\n"));
  }

 private:
  const std::string name_;
  std::vector<std::string> problems_;
};

// Which of the keys that name a part a fault of this kind has: 'y' must, 'n' must not, '?' may.
struct Keys {
  char node, peer, rail, leaf;
};

Keys KeysOf(FaultKind kind) {
  switch (kind) {
    case FaultKind::kNode:
    case FaultKind::kFailing:
      return {'y', 'n', 'n', 'n'};
    case FaultKind::kNic:
      return {'y', 'n', 'y', 'n'};
    case FaultKind::kLeaf:
    case FaultKind::kUplink:
      return {'n', 'n', 'n', 'y'};
    case FaultKind::kPair:
      return {'y', 'y', '?', 'n'};
    case FaultKind::kDrift:
    case FaultKind::kFlapping:
    case FaultKind::kTransient:
      return {'y', 'n', '?', 'n'};
    case FaultKind::kFleet:
      break;
  }
  return {'n', 'n', 'n', 'n'};
}

void CheckKey(char rule, bool is_set, uint32_t value, size_t below, const std::string& where,
              Checker& check) {
  check.Require(rule != 'y' || is_set, where, "is missing");
  check.Require(rule != 'n' || !is_set, where, "does not belong to this kind of fault");
  check.Require(!is_set || value < below, where, absl::StrCat("must be below ", below));
}

Fault ReadFault(const pb::Fault& in, const Scenario& scenario, const std::string& where, Checker& check) {
  Fault fault;
  fault.end = scenario.length();
  check.Require(in.kind() != pb::FAULT_KIND_UNSPECIFIED, where + ".kind", "is missing");
  if (in.kind() == pb::FAULT_KIND_UNSPECIFIED) return fault;
  fault.kind = static_cast<FaultKind>(in.kind());
  const Keys keys = KeysOf(fault.kind);
  CheckKey(keys.node, in.has_node(), in.node(), scenario.nodes, where + ".node", check);
  CheckKey(keys.peer, in.has_peer(), in.peer(), scenario.nodes, where + ".peer", check);
  CheckKey(keys.rail, in.has_rail(), in.rail(), scenario.rails, where + ".rail", check);
  CheckKey(keys.leaf, in.has_leaf(), in.leaf(), scenario.leaves, where + ".leaf", check);
  check.Require(keys.peer != 'y' || in.node() != in.peer(), where + ".peer", "is the node itself");
  fault.node = in.node();
  fault.peer = in.peer();
  if (in.has_rail()) fault.rail = in.rail();
  fault.leaf = in.leaf();
  fault.onset = FromProto(in.onset());
  if (in.has_end()) fault.end = FromProto(in.end());
  check.Require(fault.onset >= absl::ZeroDuration() && fault.end > fault.onset, where + ".end",
                "must come after the onset");
  const bool is_slow = fault.kind != FaultKind::kFailing;
  fault.size = in.size();
  check.Require(is_slow ? fault.size > 0 && fault.size < 1 : fault.size == 0, where + ".size",
                is_slow ? "must lie between 0 and 1" : "does not belong to a failing node");
  fault.ramp = FromProto(in.ramp());
  check.Require((fault.kind == FaultKind::kDrift) == (fault.ramp > absl::ZeroDuration()), where + ".ramp",
                "is for drift, which needs it");
  fault.flap_period = FromProto(in.flap_period());
  check.Require((fault.kind == FaultKind::kFlapping) == (fault.flap_period > absl::ZeroDuration()),
                where + ".flap_period", "is for flapping, which needs it");
  if (in.has_flap_share()) fault.flap_share = in.flap_share();
  check.Require(fault.flap_share > 0 && fault.flap_share < 1, where + ".flap_share",
                "must lie between 0 and 1");
  check.Require(fault.kind != FaultKind::kTransient || fault.end - fault.onset <= 2 * scenario.period,
                where + ".end", "must be at most two periods after a transient's onset");
  return fault;
}

void ReadNoise(const pb::Scenario& in, Scenario& scenario, Checker& check) {
  const auto share = [&](bool is_set, double value, const char* key, double& target) {
    if (is_set) target = value;
    check.Require(target >= 0 && target < 1, key, "must lie from 0 to below 1");
  };
  share(in.has_noise(), in.noise(), "noise", scenario.noise);
  share(in.has_node_spread(), in.node_spread(), "node_spread", scenario.node_spread);
  share(in.has_dip_rate(), in.dip_rate(), "dip_rate", scenario.dip_rate);
  share(in.has_least_dip(), in.least_dip(), "least_dip", scenario.least_dip);
  share(in.has_deepest_dip(), in.deepest_dip(), "deepest_dip", scenario.deepest_dip);
  share(in.has_daily_swing(), in.daily_swing(), "daily_swing", scenario.daily_swing);
  share(in.has_busy_share(), in.busy_share(), "busy_share", scenario.busy_share);
  check.Require(scenario.least_dip <= scenario.deepest_dip, "deepest_dip", "must not be below least_dip");
  if (in.has_bandwidth_bytes_per_second()) scenario.bandwidth = in.bandwidth_bytes_per_second();
  check.Require(scenario.bandwidth > 0, "bandwidth_bytes_per_second", "must be above 0");
}

void ReadFleet(const pb::Scenario& in, Scenario& scenario, Checker& check) {
  scenario.nodes = in.nodes();
  scenario.rails = in.rails();
  scenario.leaves = in.leaves();
  scenario.days = in.days();
  check.Require(in.nodes() >= 2 && in.nodes() <= kMostNodes, "nodes",
                absl::StrCat("must lie from 2 to ", kMostNodes));
  check.Require(in.rails() >= 1 && in.rails() <= kMostRails, "rails",
                absl::StrCat("must lie from 1 to ", kMostRails));
  check.Require(in.leaves() >= 1, "leaves", "must be at least 1");
  check.Require(in.days() >= 1 && in.days() <= kMostDays, "days",
                absl::StrCat("must lie from 1 to ", kMostDays));
  scenario.cabling = in.cabling() == pb::CABLING_RAILS ? Cabling::kRails : Cabling::kFlat;
  const bool is_whole = in.rails() == 0 || in.leaves() % in.rails() == 0;
  check.Require(scenario.cabling == Cabling::kFlat || is_whole, "leaves",
                "must be a multiple of rails with this cabling");
  const size_t groups =
      scenario.cabling == Cabling::kRails && in.rails() > 0 ? in.leaves() / in.rails() : in.leaves();
  check.Require(groups <= in.nodes(), "leaves", "are more than the nodes can fill");
  if (in.has_period()) scenario.period = FromProto(in.period());
  if (in.has_run_time()) scenario.run_time = FromProto(in.run_time());
  if (in.has_job_time()) scenario.job_time = FromProto(in.job_time());
  check.Require(scenario.run_time > absl::ZeroDuration() && scenario.run_time <= scenario.period, "run_time",
                "must be above 0 and at most the period");
  check.Require(scenario.period <= absl::Hours(24), "period", "must be at most a day");
  check.Require(scenario.job_time > absl::ZeroDuration(), "job_time", "must be above 0");
  scenario.max_concurrent_runs = std::max<size_t>(16, scenario.nodes / 10);
  if (in.has_max_concurrent_runs()) scenario.max_concurrent_runs = in.max_concurrent_runs();
  check.Require(scenario.max_concurrent_runs > 0, "max_concurrent_runs", "must be at least 1");
  scenario.planner_knows_busy = in.planner_knows_busy();
}

void ReadWork(const pb::Scenario& in, Scenario& scenario, Checker& check) {
  for (const pb::StackUpgrade& one : in.stack_upgrades()) {
    const StackUpgrade upgrade{FromProto(one.at()), FromProto(one.over()), one.change()};
    check.Require(upgrade.change > -1, "stack_upgrades.change", "must be above -1");
    scenario.stack_upgrades.push_back(upgrade);
  }
  std::sort(scenario.stack_upgrades.begin(), scenario.stack_upgrades.end(),
            [](const StackUpgrade& a, const StackUpgrade& b) { return a.at < b.at; });
  for (const pb::Maintenance& one : in.maintenance()) {
    Maintenance work{
        FromProto(one.start()), FromProto(one.end()), one.first_node(), one.nodes(), one.size(), {}};
    work.work_end = one.has_work_end() ? FromProto(one.work_end()) : work.end;
    check.Require(work.work_end >= work.start && work.work_end <= work.end, "maintenance.work_end",
                  "must lie from the start to the end");
    check.Require(work.end > work.start, "maintenance.end", "must come after the start");
    check.Require(work.nodes > 0 && work.first_node + work.nodes <= scenario.nodes, "maintenance.nodes",
                  "must name nodes of the fleet");
    check.Require(work.size >= 0 && work.size < 1, "maintenance.size", "must lie from 0 to below 1");
    scenario.maintenance.push_back(work);
  }
  for (const Duration& restart : in.restarts()) scenario.restarts.push_back(FromProto(restart));
  std::sort(scenario.restarts.begin(), scenario.restarts.end());
}

std::string Time(absl::Duration duration) { return absl::StrCat(absl::ToInt64Seconds(duration), "s"); }

std::string ToYaml(const Fault& fault) {
  const Keys keys = KeysOf(fault.kind);
  std::string text = absl::StrCat("  - {kind: ", NameOf(fault.kind));
  if (keys.node == 'y') absl::StrAppend(&text, ", node: ", fault.node);
  if (keys.peer == 'y') absl::StrAppend(&text, ", peer: ", fault.peer);
  if (fault.rail != kAll) absl::StrAppend(&text, ", rail: ", fault.rail);
  if (keys.leaf == 'y') absl::StrAppend(&text, ", leaf: ", fault.leaf);
  absl::StrAppend(&text, ", onset: ", Time(fault.onset), ", end: ", Time(fault.end));
  if (fault.kind != FaultKind::kFailing) absl::StrAppend(&text, ", size: ", fault.size);
  if (fault.kind == FaultKind::kDrift) absl::StrAppend(&text, ", ramp: ", Time(fault.ramp));
  if (fault.kind == FaultKind::kFlapping) {
    absl::StrAppend(&text, ", flap_period: ", Time(fault.flap_period), ", flap_share: ", fault.flap_share);
  }
  return absl::StrCat(text, "}\n");
}

}  // namespace

absl::string_view NameOf(FaultKind kind) {
  static constexpr std::array<absl::string_view, 11> kNames = {
      "", "node", "nic", "leaf", "uplink", "pair", "drift", "flapping", "transient", "fleet", "failing"};
  return kNames[static_cast<size_t>(kind)];
}

double Fault::Left(absl::Duration time) const {
  if (!IsActive(time)) return 1;
  if (kind == FaultKind::kDrift) return 1 - size * std::min(1.0, absl::FDivDuration(time - onset, ramp));
  if (kind == FaultKind::kFlapping) {
    const double turns = absl::FDivDuration(time - onset, flap_period);
    return turns - static_cast<double>(static_cast<int64_t>(turns)) < flap_share ? 1 - size : 1;
  }
  return 1 - size;
}

size_t Scenario::LeafOf(size_t node, size_t rail) const {
  if (cabling == Cabling::kFlat) return node * leaves / nodes;
  const size_t groups = leaves / rails;
  return node * groups / nodes * rails + rail;
}

std::string NodeId(size_t node) { return absl::StrFormat("node-%06d", node); }
std::string NicName(size_t rail) { return absl::StrCat("mlx5_", rail); }
std::string LeafName(size_t leaf) { return absl::StrFormat("leaf-%03d", leaf); }

absl::StatusOr<Scenario> ParseScenario(absl::string_view yaml, absl::string_view name) {
  pb::Scenario in;
  if (absl::Status status = ParseYaml(yaml, name, &in); !status.ok()) return status;
  Scenario scenario;
  Checker check(name);
  ReadFleet(in, scenario, check);
  ReadNoise(in, scenario, check);
  ReadWork(in, scenario, check);
  for (int i = 0; i < in.faults_size(); ++i) {
    scenario.faults.push_back(ReadFault(in.faults(i), scenario, absl::StrCat("faults[", i, "]"), check));
  }
  if (absl::Status status = check.status(); !status.ok()) return status;
  return scenario;
}

std::string ToYaml(const Scenario& scenario) {
  std::string text = absl::StrCat(
      "nodes: ", scenario.nodes, "\nrails: ", scenario.rails, "\nleaves: ", scenario.leaves,
      "\ncabling: ", scenario.cabling == Cabling::kRails ? "rails" : "flat", "\ndays: ", scenario.days,
      "\nperiod: ", Time(scenario.period), "\nrun_time: ", Time(scenario.run_time),
      "\nmax_concurrent_runs: ", scenario.max_concurrent_runs,
      "\nbandwidth_bytes_per_second: ", scenario.bandwidth, "\nnoise: ", scenario.noise,
      "\nnode_spread: ", scenario.node_spread, "\ndip_rate: ", scenario.dip_rate,
      "\nleast_dip: ", scenario.least_dip, "\ndeepest_dip: ", scenario.deepest_dip,
      "\ndaily_swing: ", scenario.daily_swing, "\nbusy_share: ", scenario.busy_share,
      "\njob_time: ", Time(scenario.job_time),
      "\nplanner_knows_busy: ", scenario.planner_knows_busy ? "true" : "false", "\n");
  if (!scenario.faults.empty()) text += "faults:\n";
  for (const Fault& fault : scenario.faults) text += ToYaml(fault);
  if (!scenario.stack_upgrades.empty()) text += "stack_upgrades:\n";
  for (const StackUpgrade& upgrade : scenario.stack_upgrades) {
    absl::StrAppend(&text, "  - {at: ", Time(upgrade.at), ", over: ", Time(upgrade.over),
                    ", change: ", upgrade.change, "}\n");
  }
  if (!scenario.maintenance.empty()) text += "maintenance:\n";
  for (const Maintenance& work : scenario.maintenance) {
    absl::StrAppend(&text, "  - {start: ", Time(work.start), ", end: ", Time(work.end),
                    ", first_node: ", work.first_node, ", nodes: ", work.nodes, ", size: ", work.size,
                    ", work_end: ", Time(work.work_end), "}\n");
  }
  if (!scenario.restarts.empty()) {
    text += absl::StrCat(
        "restarts: [",
        absl::StrJoin(scenario.restarts, ", ", [](std::string* out, absl::Duration at) { *out += Time(at); }),
        "]\n");
  }
  return text;
}

}  // namespace weft::sim
