#include "bench/sim/scenario.h"

#include "bench/sim/generate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::sim {
namespace {

using ::testing::HasSubstr;

constexpr char kFleet[] = "nodes: 64\nrails: 8\nleaves: 16\ncabling: rails\ndays: 2\n";

std::string ErrorOf(const std::string& yaml) {
  const absl::StatusOr<Scenario> scenario = ParseScenario(yaml, "f.yaml");
  return scenario.ok() ? "" : std::string(scenario.status().message());
}

TEST(ScenarioTest, ReadsAFault) {
  const auto scenario = ParseScenario(
      std::string(kFleet) + "faults:\n  - {kind: drift, node: 3, rail: 2, onset: 1d, size: 0.2, ramp: 6h}\n",
      "f.yaml");
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  ASSERT_EQ(scenario->faults.size(), 1u);
  const Fault& fault = scenario->faults[0];
  EXPECT_EQ(fault.kind, FaultKind::kDrift);
  EXPECT_EQ(fault.node, 3u);
  EXPECT_EQ(fault.rail, 2u);
  EXPECT_EQ(fault.onset, absl::Hours(24));
  EXPECT_EQ(fault.end, absl::Hours(48));
  EXPECT_EQ(fault.ramp, absl::Hours(6));
}

TEST(ScenarioTest, NamesAnUnknownKeyWithItsLine) {
  EXPECT_THAT(ErrorOf("nodes: 64\nleafs: 3\n"), HasSubstr("f.yaml:2: unknown key \"leafs\""));
}

TEST(ScenarioTest, SaysAllThatIsWrongAtOnce) {
  const std::string error = ErrorOf(std::string(kFleet) +
                                    "noise: 1.5\nfaults:\n"
                                    "  - {kind: nic, node: 64, onset: 1h, size: 0.1}\n"
                                    "  - {kind: leaf, leaf: 1, onset: 5h, end: 4h, size: 0.1}\n"
                                    "  - {kind: pair, node: 1, peer: 1, onset: 1h, size: 2}\n"
                                    "  - {kind: failing, node: 1, onset: 1h, size: 0.1}\n"
                                    "  - {kind: transient, node: 1, onset: 1h, end: 3h, size: 0.1}\n"
                                    "  - {node: 1}\n");
  for (const char* part : {"f.yaml: noise must lie from 0 to below 1", "faults[0].node must be below 64",
                           "faults[0].rail is missing", "faults[1].end must come after the onset",
                           "faults[2].peer is the node itself", "faults[2].size must lie between 0 and 1",
                           "faults[3].size does not belong to a failing node",
                           "faults[4].end must be at most two periods", "faults[5].kind is missing"}) {
    EXPECT_THAT(error, HasSubstr(part));
  }
}

TEST(ScenarioTest, RefusesAFleetThatCannotBeBuilt) {
  EXPECT_THAT(ErrorOf("nodes: 1\nrails: 0\nleaves: 3\ndays: 1\n"), HasSubstr("nodes must lie from 2"));
  EXPECT_THAT(ErrorOf("nodes: 1\nrails: 0\nleaves: 3\ndays: 1\n"), HasSubstr("rails must lie from 1"));
  EXPECT_THAT(ErrorOf("nodes: 64\nrails: 8\nleaves: 12\ncabling: rails\ndays: 1\n"),
              HasSubstr("multiple of rails"));
  EXPECT_THAT(ErrorOf("nodes: 8\nrails: 1\nleaves: 9\ndays: 1\n"), HasSubstr("more than the nodes can fill"));
  EXPECT_THAT(ErrorOf("nodes: 8\nrails: 1\nleaves: 2\ndays: 1\nperiod: 3s\n"),
              HasSubstr("at most the period"));
}

TEST(ScenarioTest, LeavesHoldTheNicsThatTheCablingSays) {
  Scenario flat;
  flat.nodes = 64;
  flat.leaves = 8;
  EXPECT_EQ(flat.LeafOf(7, 3), 0u);
  EXPECT_EQ(flat.LeafOf(8, 3), 1u);
  Scenario rails = flat;
  rails.cabling = Cabling::kRails;
  rails.leaves = 16;
  EXPECT_EQ(rails.LeafOf(31, 3), 3u);
  EXPECT_EQ(rails.LeafOf(32, 3), 11u);
}

TEST(ScenarioTest, FaultsTakeWhatTheirKindSaysAtEachTime) {
  Fault fault;
  fault.kind = FaultKind::kDrift;
  fault.onset = absl::Hours(10);
  fault.end = absl::Hours(30);
  fault.size = 0.4;
  fault.ramp = absl::Hours(10);
  EXPECT_EQ(fault.Left(absl::Hours(9)), 1);
  EXPECT_DOUBLE_EQ(fault.Left(absl::Hours(15)), 0.8);
  EXPECT_DOUBLE_EQ(fault.Left(absl::Hours(25)), 0.6);
  EXPECT_EQ(fault.Left(absl::Hours(30)), 1);
  fault.kind = FaultKind::kFlapping;
  fault.flap_period = absl::Hours(4);
  fault.flap_share = 0.25;
  EXPECT_DOUBLE_EQ(fault.Left(absl::Hours(10)), 0.6);
  EXPECT_DOUBLE_EQ(fault.Left(absl::Hours(12)), 1);
  EXPECT_DOUBLE_EQ(fault.Left(absl::Hours(14)), 0.6);
}

TEST(GenerateTest, WhatIsPrintedReadsBackAsTheSame) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    GenerateOptions options;
    options.nodes = 64 * seed;
    const Scenario made = Generate(options, seed);
    const auto read = ParseScenario(ToYaml(made), "made");
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, made) << "seed " << seed;
  }
}

TEST(GenerateTest, HasFaultsOfEveryKindAndDependsOnTheSeed) {
  const Scenario made = Generate({}, 7);
  for (int kind = 1; kind <= 10; ++kind) {
    EXPECT_TRUE(std::any_of(made.faults.begin(), made.faults.end(), [&](const Fault& fault) {
      return fault.kind == static_cast<FaultKind>(kind);
    })) << kind;
  }
  EXPECT_EQ(made, Generate({}, 7));
  EXPECT_NE(made.faults, Generate({}, 8).faults);
}

}  // namespace
}  // namespace weft::sim
