#include <algorithm>
#include <map>
#include <ostream>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "server/detect/detector.h"
#include "server/detect/simulated_fleet.h"

namespace weft {
namespace {

// A detector that loses its process now and then and comes back from its states.
class Restarting {
 public:
  Restarting(double rate, uint64_t seed) : rate_(rate), random_(seed) {}
  void Observe(const StoredResult& result) {
    detector_.Observe(result);
    if (std::uniform_real_distribution<double>(0, 1)(random_) < rate_) Restart();
  }
  std::vector<Finding> Alerts() const {
    std::vector<Finding> alerts;
    for (Finding& finding : detector_.Findings()) {
      if (finding.severity != Severity::kInfo) alerts.push_back(std::move(finding));
    }
    return alerts;
  }
  const Detector& detector() const { return detector_; }

 private:
  void Restart() {
    for (DetectorState& state : detector_.TakeChangedStates()) states_[state.key] = state.blob;
    std::vector<DetectorState> states;
    for (const auto& [key, blob] : states_) states.push_back({key, blob});
    detector_ = Detector(DetectorOptions{});
    ASSERT_TRUE(detector_.Restore(states).ok());
  }

  double rate_;
  std::mt19937_64 random_;
  Detector detector_{DetectorOptions{}};
  std::map<std::string, std::string> states_;
};

struct Scenario {
  std::string name;
  double dip_rate = 0;
  double lost_rate = 0;
  double late_rate = 0;
  double restart_rate = 0;
  bool second_fault = false;
  size_t least_nodes = 4;
};

struct Fault {
  size_t node = 0;
  double ratio = 1;
  uint64_t inject_round = 0;
  uint64_t repair_round = 0;
  // Counted over rounds in which the node took part and both results came.
  size_t runs_until_found = 0;
  size_t good_in_a_row = 0;
  bool found = false;
  bool resolved = false;
  bool is_disturbed = false;  // a dip, or a run that is not whole, between injection and finding
  double ratio_error = 0;
};

struct Totals {
  size_t faults = 0, false_findings = 0, not_found = 0, late_found = 0, late_resolved = 0, bad_ratio = 0;
  size_t worst_detection = 0;
  double worst_ratio_error = 0;
  std::map<size_t, size_t> delays;
};

class Simulation {
 public:
  Simulation(const Scenario& scenario, uint64_t seed, Totals& totals)
      : scenario_(scenario), seed_(seed), totals_(totals), random_(seed * 7919 + 17) {}

  void Play() {
    SimulatedFleetOptions options;
    options.nodes = scenario_.least_nodes + random_() % (33 - scenario_.least_nodes);
    options.seed = seed_;
    options.dip_rate = scenario_.dip_rate;
    options.lost_rate = scenario_.lost_rate;
    options.late_rate = scenario_.late_rate;
    SimulatedFleet fleet(options);
    Restarting detector(scenario_.restart_rate, seed_);
    MakeFaults(options.nodes);
    for (uint64_t round = 1; round <= 70; ++round) PlayOne(fleet, detector, round);
    for (const Fault& fault : faults_) {
      if (!fault.found) Complain(totals_.not_found, "not found", fault);
      if (fault.found && !fault.resolved) Complain(totals_.late_resolved, "not resolved", fault);
    }
  }

 private:
  double Uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }

  void MakeFaults(size_t nodes) {
    Fault first;
    first.node = random_() % nodes;
    first.ratio = Uniform(0.3, 0.8);
    first.inject_round = 14 + random_() % 6;
    first.repair_round = first.inject_round + 15 + random_() % 6;
    faults_.push_back(first);
    if (!scenario_.second_fault) return;
    Fault second = first;
    second.node = (first.node + 1 + random_() % (nodes - 1)) % nodes;
    second.ratio = Uniform(0.3, 0.8);
    second.inject_round = first.inject_round + random_() % 8;
    second.repair_round = first.repair_round + random_() % 4;
    faults_.push_back(second);
  }

  void PlayOne(SimulatedFleet& fleet, Restarting& detector, uint64_t round) {
    const auto change = [&] {
      for (const Fault& fault : faults_) {
        if (fault.inject_round == round) fleet.SetHealth(fault.node, fault.ratio);
        if (fault.repair_round == round) fleet.SetHealth(fault.node, 1);
      }
    };
    const bool has_change = std::any_of(faults_.begin(), faults_.end(), [&](const Fault& fault) {
      return fault.inject_round == round || fault.repair_round == round;
    });
    const auto played = fleet.PlayRound([&](const StoredResult& result) { detector.Observe(result); },
                                        has_change ? std::function<void()>(change) : nullptr);
    const std::vector<Finding> alerts = detector.Alerts();
    CheckNoFalseFinding(fleet, alerts, round);
    for (Fault& fault : faults_) Follow(fleet, fault, played, alerts, round);
  }

  void CheckNoFalseFinding(const SimulatedFleet& fleet, const std::vector<Finding>& alerts, uint64_t round) {
    for (const Finding& finding : alerts) {
      const bool is_true = std::any_of(faults_.begin(), faults_.end(), [&](const Fault& fault) {
        return finding.kind == FindingKind::kBandwidthDrop && finding.scope == FindingScope::kNode &&
               finding.node_ids == std::vector<std::string>{fleet.id(fault.node)} &&
               round >= fault.inject_round;
      });
      if (is_true || !complained_.insert(finding.Key()).second) continue;
      ++totals_.false_findings;
      ADD_FAILURE() << scenario_.name << " seed " << seed_ << " round " << round << ": false finding "
                    << finding.Key() << " " << finding.summary << Faults(fleet);
    }
  }

  std::string Faults(const SimulatedFleet& fleet) const {
    std::string text;
    for (const Fault& fault : faults_) {
      absl::StrAppend(&text, "; ", fleet.id(fault.node), "=", fault.ratio, " from ", fault.inject_round,
                      " to ", fault.repair_round);
    }
    return text;
  }

  void Follow(const SimulatedFleet& fleet, Fault& fault, const std::vector<SimulatedFleet::Played>& played,
              const std::vector<Finding>& alerts, uint64_t round) {
    const SimulatedFleet::Played* own = nullptr;
    for (const auto& one : played) {
      const auto& ids = one.run.participants;
      if (std::count(ids.begin(), ids.end(), fleet.id(fault.node)) != 0) own = &one;
    }
    const Finding* finding = nullptr;
    for (const Finding& alert : alerts) {
      if (alert.node_ids == std::vector<std::string>{fleet.id(fault.node)}) finding = &alert;
    }
    if (round >= fault.inject_round && !fault.found) FollowDetection(fault, own, finding);
    if (fault.found && finding != nullptr && round < fault.repair_round) CheckRatio(fault, *finding);
    if (fault.found && round < fault.repair_round && finding == nullptr) {
      Complain(totals_.late_resolved, "resolved while still slow", fault);
      fault.found = false;
    }
    if (round > fault.repair_round && !fault.resolved) FollowRecovery(fleet, fault, own, finding);
  }

  void FollowDetection(Fault& fault, const SimulatedFleet::Played* own, const Finding* finding) {
    if (own != nullptr && own->is_whole) ++fault.runs_until_found;
    if (own != nullptr) fault.is_disturbed |= own->has_dip || !own->is_whole;
    if (finding != nullptr) {
      fault.found = true;
      ++totals_.faults;
      ++totals_.delays[fault.runs_until_found];
      totals_.worst_detection = std::max(totals_.worst_detection, fault.runs_until_found);
      // The first of them was half slow. A second slow node may spoil one run.
      const size_t bound = faults_.size() == 1 ? 4 : 5;
      if (fault.runs_until_found > bound && !fault.is_disturbed)
        Complain(totals_.late_found, "found late", fault);
    }
  }

  void CheckRatio(Fault& fault, const Finding& finding) {
    const double error = std::abs(finding.ratio - fault.ratio);
    totals_.worst_ratio_error = std::max(totals_.worst_ratio_error, error);
    if (error > 0.1) Complain(totals_.bad_ratio, absl::StrCat("ratio ", finding.ratio), fault);
  }

  void FollowRecovery(const SimulatedFleet& fleet, Fault& fault, const SimulatedFleet::Played* own,
                      const Finding* finding) {
    if (finding == nullptr) {
      fault.resolved = true;
      return;
    }
    if (own == nullptr) return;
    bool is_good = own->is_whole && !own->has_dip;
    for (const Fault& other : faults_) {
      const auto& ids = own->run.participants;
      if (other.node != fault.node && fleet.health(other.node) < 1 &&
          std::count(ids.begin(), ids.end(), fleet.id(other.node)) != 0) {
        is_good = false;
      }
    }
    fault.good_in_a_row = is_good ? fault.good_in_a_row + 1 : 0;
    if (fault.good_in_a_row == 4) Complain(totals_.late_resolved, "resolved late", fault);
  }

  void Complain(size_t& counter, const std::string& what, const Fault& fault) {
    ++counter;
    ADD_FAILURE() << scenario_.name << " seed " << seed_ << ": node " << fault.node << " at " << fault.ratio
                  << " from round " << fault.inject_round << " to " << fault.repair_round << ": " << what
                  << ", runs " << fault.runs_until_found;
  }

  const Scenario& scenario_;
  const uint64_t seed_;
  Totals& totals_;
  std::mt19937_64 random_;
  std::vector<Fault> faults_;
  std::set<std::string> complained_;
};

void PrintTo(const Scenario& scenario, std::ostream* out) { *out << scenario.name; }

class SimulationTest : public ::testing::TestWithParam<Scenario> {};

TEST_P(SimulationTest, NamesExactlyTheSlowNodesInTimeAndNobodyElse) {
  Totals totals;
  const char* seeds_text = std::getenv("WEFT_SIMULATION_SEEDS");
  const uint64_t seeds = seeds_text == nullptr ? 60 : std::strtoull(seeds_text, nullptr, 10);
  for (uint64_t seed = 1; seed <= seeds; ++seed) Simulation(GetParam(), seed, totals).Play();
  std::string delays;
  for (const auto& [delay, count] : totals.delays) absl::StrAppend(&delays, " ", delay, ":", count);
  printf(
      "%s: %zu faults, runs to detection%s, worst ratio error %.3f, false %zu, not found %zu, late %zu, "
      "late resolved %zu, bad ratio %zu\n",
      GetParam().name.c_str(), totals.faults, delays.c_str(), totals.worst_ratio_error, totals.false_findings,
      totals.not_found, totals.late_found, totals.late_resolved, totals.bad_ratio);
}

INSTANTIATE_TEST_SUITE_P(
    , SimulationTest,
    ::testing::Values(Scenario{.name = "Quiet"}, Scenario{.name = "TwoFaults", .second_fault = true},
                      Scenario{.name = "Dips", .dip_rate = 0.01},
                      Scenario{.name = "LateAndLost", .lost_rate = 0.02, .late_rate = 0.05},
                      Scenario{.name = "Restarts", .restart_rate = 0.02},
                      Scenario{.name = "Everything",
                               .dip_rate = 0.01,
                               .lost_rate = 0.02,
                               .late_rate = 0.05,
                               .restart_rate = 0.01,
                               .second_fault = true}),
    [](const auto& param) { return param.param.name; });

// Plays rounds with dips and late results; nobody but the node given (if below the number of nodes) is named.
void ExpectNobodyElseNamed(size_t nodes, size_t slow_node, double dip_rate, int rounds) {
  SimulatedFleetOptions options;
  options.nodes = nodes;
  options.seed = nodes + slow_node;
  options.dip_rate = dip_rate;
  options.late_rate = 0.05;
  options.lost_rate = 0.01;
  SimulatedFleet fleet(options);
  Restarting detector(0, nodes);
  for (int round = 0; round < rounds; ++round) {
    if (round == 20 && slow_node < nodes) fleet.SetHealth(slow_node, 0.7);
    fleet.PlayRound([&](const StoredResult& result) { detector.Observe(result); });
    for (const Finding& alert : detector.Alerts()) {
      ASSERT_TRUE(slow_node < nodes && alert.node_ids == std::vector<std::string>{fleet.id(slow_node)})
          << nodes << " nodes, seed " << options.seed << ", round " << round << ": " << alert.Key() << " "
          << alert.summary;
    }
  }
}

TEST(LongSimulationTest, ThousandsOfNoisyRoundsWithDipsGiveNoFinding) {
  for (const size_t nodes : {4, 8, 9, 16}) ExpectNobodyElseNamed(nodes, nodes, 0.02, 2000);
}

TEST(LongSimulationTest, ThousandsOfRoundsBesideASlowNodeBlameNobodyElse) {
  for (const size_t nodes : {4, 8, 9, 16}) ExpectNobodyElseNamed(nodes, 1, 0.01, 2000);
}

}  // namespace
}  // namespace weft
