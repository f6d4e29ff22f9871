#include "bench/sim/simulation.h"

#include <memory>

#include "bench/sim/generate.h"
#include "bench/sim/report.h"
#include "gtest/gtest.h"

namespace weft::sim {
namespace {

Scenario SmallFleet() {
  Scenario scenario;
  scenario.nodes = 64;
  scenario.rails = 4;
  scenario.leaves = 8;
  scenario.days = 1;
  scenario.busy_share = 0.2;
  return scenario;
}

Fault SlowFrom(FaultKind kind, size_t node, size_t rail, double size) {
  Fault fault;
  fault.kind = kind;
  fault.node = node;
  fault.rail = rail;
  fault.onset = absl::Hours(8);
  fault.end = absl::Hours(24);
  fault.size = size;
  return fault;
}

Played Simulated(const Scenario& scenario, const std::string& strategy, uint64_t seed = 1) {
  const std::unique_ptr<Strategy> made = MakeStrategy(strategy, scenario, seed).value();
  return Simulate(scenario, seed, *made).value();
}

TEST(SimulationTest, ASeedGivesTheSameReportAgain) {
  const Scenario scenario = Generate({.nodes = 64, .rails = 2, .leaves = 8, .days = 1}, 3);
  for (const std::string& strategy : StrategyNames()) {
    const std::string first = ToJson(scenario, strategy, Simulated(scenario, strategy), 0);
    EXPECT_EQ(first, ToJson(scenario, strategy, Simulated(scenario, strategy), 0)) << strategy;
    EXPECT_NE(first, ToJson(scenario, strategy, Simulated(scenario, strategy, 2), 0)) << strategy;
  }
}

TEST(SimulationTest, WeftNamesASlowNodeASlowNicAndAFailingNode) {
  Scenario scenario = SmallFleet();
  scenario.faults = {SlowFrom(FaultKind::kNode, 5, kAll, 0.4), SlowFrom(FaultKind::kNic, 20, 2, 0.4),
                     SlowFrom(FaultKind::kFailing, 40, kAll, 0)};
  const Played played = Simulated(scenario, "weft");
  ASSERT_EQ(played.score.FaultsToFind(scenario), 3u);
  for (const FaultScore& fault : played.score.faults) EXPECT_TRUE(fault.right) << fault.named.subject;
  EXPECT_TRUE(played.score.false_findings.empty());
}

TEST(SimulationTest, PublishedStrategiesNameASlowNode) {
  Scenario scenario = SmallFleet();
  scenario.dip_rate = 0;
  scenario.faults = {SlowFrom(FaultKind::kNode, 5, kAll, 0.4)};
  for (const std::string& strategy : StrategyNames()) {
    const Played played = Simulated(scenario, strategy);
    EXPECT_TRUE(played.score.faults[0].right) << strategy;
    // Only the fixed floor condemns partners with the node.
    EXPECT_EQ(played.score.false_findings.empty(), strategy != "fixed-floor") << strategy;
  }
}

TEST(SimulationTest, ARestartChangesNothingButItsOwnEntry) {
  Scenario scenario = SmallFleet();
  scenario.faults = {SlowFrom(FaultKind::kNode, 5, kAll, 0.4)};
  const std::string without = ToJson(scenario, "weft", Simulated(scenario, "weft"), 0);
  scenario.restarts = {absl::Hours(3), absl::Hours(8), absl::Hours(9)};
  EXPECT_EQ(ToJson(scenario, "weft", Simulated(scenario, "weft"), 0), without);
}

TEST(SimulationTest, AWindowKeepsAnnouncedWorkFromThePager) {
  Scenario scenario = SmallFleet();
  scenario.busy_share = 0;
  scenario.maintenance = {{absl::Hours(8), absl::Hours(14), 16, 8, 0.5, absl::Hours(12)}};
  const Played covered = Simulated(scenario, "weft");
  EXPECT_EQ(covered.score.false_findings.size(), 0u);
  scenario.maintenance.clear();
  for (size_t node = 16; node < 24; ++node) {
    scenario.faults.push_back(SlowFrom(FaultKind::kNode, node, kAll, 0.5));
    scenario.faults.back().end = absl::Hours(12);
  }
  const Played open = Simulated(scenario, "weft");
  EXPECT_EQ(covered.score.pages, 0u);
  EXPECT_GE(open.score.pages, 8u);
}

TEST(SimulationTest, ProbesTakeLessThanHalfAPercentOfANode) {
  Scenario scenario = SmallFleet();
  scenario.busy_share = 0;
  const Played played = Simulated(scenario, "weft");
  EXPECT_EQ(played.rounds, 96u);
  EXPECT_EQ(played.probes, 96u * 32u);
  EXPECT_LE(played.probe_time / 64, 0.005 * absl::Hours(24));
  EXPECT_EQ(played.declined, 0u);
}

}  // namespace
}  // namespace weft::sim
