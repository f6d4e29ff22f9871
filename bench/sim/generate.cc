#include "bench/sim/generate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "bench/sim/explain.h"

namespace weft::sim {
namespace {

constexpr std::array kTwoOfEach = {FaultKind::kNode,     FaultKind::kNic,       FaultKind::kLeaf,
                                   FaultKind::kUplink,   FaultKind::kPair,      FaultKind::kDrift,
                                   FaultKind::kFlapping, FaultKind::kTransient, FaultKind::kFailing};
constexpr double kLargest = 0.6;
constexpr int kTries = 1000;

double Rounded(double value) { return std::round(value * 10'000) / 10'000; }

class Generator {
 public:
  Generator(const GenerateOptions& options, uint64_t seed) : options_(options), random_(seed) {}

  Scenario Make() {
    MakeFleet();
    for (const FaultKind kind : kTwoOfEach) {
      AddFault(kind);
      AddFault(kind);
    }
    AddFault(FaultKind::kFleet);
    // A node that never was fast.
    scenario_.faults.front().onset = absl::ZeroDuration();
    AddWork();
    std::stable_sort(scenario_.faults.begin(), scenario_.faults.end(),
                     [](const Fault& a, const Fault& b) { return a.onset < b.onset; });
    return scenario_;
  }

 private:
  double Uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  double LogUniform(double low, double high) { return std::exp(Uniform(std::log(low), std::log(high))); }
  absl::Duration Hours(double low, double high) {
    return absl::Seconds(static_cast<int64_t>(3600 * Uniform(low, high)));
  }
  size_t Below(size_t n) { return random_() % n; }

  void MakeFleet() {
    scenario_.nodes = options_.nodes;
    scenario_.rails = options_.rails;
    scenario_.leaves = options_.leaves;
    scenario_.days = options_.days;
    const bool can_have_rails = options_.leaves % options_.rails == 0;
    scenario_.cabling = can_have_rails && Below(2) == 0 ? Cabling::kRails : Cabling::kFlat;
    scenario_.max_concurrent_runs = std::max<size_t>(16, options_.nodes / 10);
    scenario_.noise = Rounded(LogUniform(0.005, 0.025));
    scenario_.node_spread = Rounded(LogUniform(0.002, 0.01));
    scenario_.dip_rate = Rounded(LogUniform(0.002, 0.02));
    scenario_.daily_swing = Rounded(LogUniform(0.003, 0.02));
  }

  // Mixed kinds hit one NIC as often as the whole node.
  size_t MaybeARail() { return Below(2) == 0 ? kAll : Below(scenario_.rails); }

  void Place(Fault& fault) {
    fault.node = Below(scenario_.nodes);
    switch (fault.kind) {
      case FaultKind::kNic:
        fault.rail = Below(scenario_.rails);
        break;
      case FaultKind::kLeaf:
      case FaultKind::kUplink:
        fault.node = 0;
        fault.leaf = Below(scenario_.leaves);
        break;
      case FaultKind::kPair:
        fault.peer = (fault.node + 1 + Below(scenario_.nodes - 1)) % scenario_.nodes;
        fault.rail = MaybeARail();
        break;
      case FaultKind::kDrift:
      case FaultKind::kFlapping:
      case FaultKind::kTransient:
        fault.rail = MaybeARail();
        break;
      default:
        break;
    }
    if (fault.kind == FaultKind::kFleet) fault.node = 0;
  }

  void Time(Fault& fault) {
    const double hours = 24.0 * static_cast<double>(scenario_.days);
    const bool is_short = hours <= 48;
    fault.onset = Hours(is_short ? hours / 3 : 24, hours - (is_short ? hours / 4 : 12));
    absl::Duration length = Hours(12, 72);
    if (fault.kind == FaultKind::kTransient) length = Hours(0.2, 0.5);
    if (fault.kind == FaultKind::kFleet) length = Hours(6, 18);
    if (fault.kind == FaultKind::kDrift) {
      fault.ramp = Hours(12, 48);
      length = std::max(length, fault.ramp + Hours(12, 24));
    }
    if (fault.kind == FaultKind::kFlapping) {
      fault.flap_period = Hours(2, 8);
      fault.flap_share = Rounded(Uniform(0.3, 0.8));
    }
    fault.end = std::min(scenario_.length(), fault.onset + length);
  }

  bool Collides(const Fault& fault) const {
    return std::any_of(scenario_.faults.begin(), scenario_.faults.end(), [&](const Fault& other) {
      if (fault.kind == FaultKind::kFleet || other.kind == FaultKind::kFleet) return false;
      const absl::Duration gap = absl::Hours(2);
      // The first one is moved to the start afterwards.
      const bool is_first = &other == &scenario_.faults.front();
      if (fault.onset >= other.end + gap || (!is_first && other.onset >= fault.end + gap)) return false;
      return Overlaps(fault, other) || Overlaps(other, fault);
    });
  }

  // Whether a node of `small` is one that `large` touches.
  bool Overlaps(const Fault& small, const Fault& large) const {
    const auto is_leaf = [](const Fault& f) {
      return f.kind == FaultKind::kLeaf || f.kind == FaultKind::kUplink;
    };
    if (is_leaf(small) && is_leaf(large)) return small.leaf == large.leaf;
    if (is_leaf(small)) return false;
    for (const size_t node : {small.node, small.kind == FaultKind::kPair ? small.peer : small.node}) {
      if (!is_leaf(large)) {
        if (node == large.node || (large.kind == FaultKind::kPair && node == large.peer)) return true;
        continue;
      }
      for (size_t rail = 0; rail < scenario_.rails; ++rail) {
        if (scenario_.LeafOf(node, rail) == large.leaf) return true;
      }
    }
    return false;
  }

  void AddFault(FaultKind kind) {
    for (int i = 0; i < kTries; ++i) {
      Fault fault;
      fault.kind = kind;
      Place(fault);
      Time(fault);
      if (kind != FaultKind::kFailing) fault.size = Rounded(LogUniform(options_.smallest, kLargest));
      if (Collides(fault)) continue;
      scenario_.faults.push_back(fault);
      return;
    }
  }

  void AddWork() {
    StackUpgrade upgrade;
    upgrade.at = Hours(30, 24.0 * static_cast<double>(scenario_.days) - 6);
    upgrade.over = Hours(1, 6);
    upgrade.change = Rounded(Uniform(-0.08, 0.04));
    if (scenario_.days > 2) scenario_.stack_upgrades.push_back(upgrade);
    for (size_t i = 0; i < (scenario_.days + 1) / 2; ++i) {
      Maintenance work;
      work.nodes = std::max<size_t>(1, scenario_.nodes / scenario_.leaves);
      work.first_node = Below(scenario_.nodes - work.nodes + 1);
      work.start = Hours(20, 24.0 * static_cast<double>(scenario_.days) - 4);
      work.end = work.start + Hours(1, 4);
      // Half of the work takes all of its window.
      work.work_end = work.start + Rounded(std::min(1.0, Uniform(0.5, 1.5))) * (work.end - work.start);
      work.work_end = absl::Trunc(work.work_end, absl::Seconds(1));
      work.size = Below(3) == 0 ? 0 : Rounded(Uniform(0.1, 0.9));
      scenario_.maintenance.push_back(work);
    }
    scenario_.restarts.push_back(Hours(24, 24.0 * static_cast<double>(scenario_.days)));
  }

  const GenerateOptions options_;
  std::mt19937_64 random_;
  Scenario scenario_;
};

}  // namespace

Scenario Generate(const GenerateOptions& options, uint64_t seed) { return Generator(options, seed).Make(); }

}  // namespace weft::sim
