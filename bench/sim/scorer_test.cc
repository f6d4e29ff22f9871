#include "bench/sim/scorer.h"

#include "gtest/gtest.h"

namespace weft::sim {
namespace {

constexpr absl::Duration kOnset = absl::Hours(30);
constexpr absl::Duration kRound = absl::Minutes(15);

Finding MakeFinding(FindingScope scope, std::vector<size_t> nodes, std::string part = "") {
  Finding finding;
  finding.scope = scope;
  for (const size_t node : nodes) finding.node_ids.push_back(NodeId(node));
  finding.part = std::move(part);
  return finding;
}

Fault MakeFault(FaultKind kind, size_t node, size_t rail = kAll) {
  Fault fault;
  fault.kind = kind;
  fault.node = node;
  fault.rail = rail;
  fault.onset = kOnset;
  fault.end = kOnset + absl::Hours(10);
  fault.size = 0.3;
  return fault;
}

Fault LeafFault(FaultKind kind, size_t leaf) {
  Fault fault = MakeFault(kind, 0);
  fault.leaf = leaf;
  return fault;
}

class ScorerTest : public ::testing::Test {
 protected:
  ScorerTest() {
    scenario_.nodes = 64;
    scenario_.rails = 8;
    scenario_.leaves = 8;  // flat: nodes 0 to 7 on leaf 0
  }

  Match MatchWith(const Finding& finding, const Fault& fault) { return MatchOf(finding, fault, scenario_); }

  // Rounds that end with the findings given open; each is an episode of its own, told at once.
  Score Play(const std::vector<std::vector<Finding>>& rounds, absl::Duration start = kOnset) {
    Scorer scorer(scenario_);
    absl::Duration now = start;
    for (const std::vector<Finding>& findings : rounds) {
      scorer.BeginRound(now, std::vector<bool>(scenario_.nodes));
      for (size_t node = 0; node + 1 < scenario_.nodes; node += 2) scorer.CountRun(now, {node, node + 1});
      now += kRound;
      std::map<std::string, Episode> open;
      for (const Finding& finding : findings) {
        Episode& episode = open[finding.Key()];
        episode.id = finding.Key();
        episode.finding = finding;
        episode.notified = is_told_;
      }
      scorer.Judge(now, open);
    }
    return scorer.Finish();
  }

  Scenario scenario_;
  bool is_told_ = true;
};

TEST_F(ScorerTest, OnlyTheVeryPartIsExact) {
  const Fault nic = MakeFault(FaultKind::kNic, 3, 5);
  EXPECT_EQ(MatchWith(MakeFinding(FindingScope::kNic, {3}, "mlx5_5"), nic), Match::kExact);
  EXPECT_EQ(MatchWith(MakeFinding(FindingScope::kNode, {3}), nic), Match::kSymptom);
  EXPECT_EQ(MatchWith(MakeFinding(FindingScope::kNic, {3}, "mlx5_4"), nic), Match::kNone);
  EXPECT_EQ(MatchWith(MakeFinding(FindingScope::kNic, {4}, "mlx5_5"), nic), Match::kNone);
  EXPECT_EQ(MatchWith(MakeFinding(FindingScope::kFleet, {}), nic), Match::kNone);
  const Fault node = MakeFault(FaultKind::kNode, 3);
  EXPECT_EQ(MatchWith(MakeFinding(FindingScope::kNode, {3}), node), Match::kExact);
  EXPECT_EQ(MatchWith(MakeFinding(FindingScope::kNic, {3}, "mlx5_4"), node), Match::kSymptom);
  EXPECT_EQ(MatchWith(MakeFinding(FindingScope::kPair, {3, 9}), node), Match::kSymptom);
  EXPECT_EQ(MatchWith(MakeFinding(FindingScope::kPair, {8, 9}), node), Match::kNone);
}

TEST_F(ScorerTest, APairIsNotANodeAndALeafIsNoOtherLeaf) {
  Fault pair = MakeFault(FaultKind::kPair, 9);
  pair.peer = 3;
  EXPECT_EQ(MatchWith(MakeFinding(FindingScope::kPair, {3, 9}), pair), Match::kExact);
  EXPECT_EQ(MatchWith(MakeFinding(FindingScope::kNode, {3}), pair), Match::kNone);
  const Fault leaf = LeafFault(FaultKind::kUplink, 1);
  EXPECT_EQ(MatchWith(MakeFinding(FindingScope::kLeaf, {}, "leaf-001"), leaf), Match::kExact);
  EXPECT_EQ(MatchWith(MakeFinding(FindingScope::kLeaf, {}, "leaf-002"), leaf), Match::kNone);
  EXPECT_EQ(MatchWith(MakeFinding(FindingScope::kLeaf, {}, "leaf-001 - leaf-002"), leaf), Match::kSymptom);
  EXPECT_EQ(MatchWith(MakeFinding(FindingScope::kNode, {9}), leaf), Match::kSymptom);
  EXPECT_EQ(MatchWith(MakeFinding(FindingScope::kNode, {7}), leaf), Match::kNone);
}

TEST_F(ScorerTest, FailuresAreExplainedByFailingNodesAlone) {
  Finding failure = MakeFinding(FindingScope::kNode, {3});
  failure.kind = FindingKind::kProbeFailure;
  EXPECT_EQ(MatchWith(failure, MakeFault(FaultKind::kNode, 3)), Match::kNone);
  EXPECT_EQ(MatchWith(failure, MakeFault(FaultKind::kFailing, 3)), Match::kExact);
  EXPECT_EQ(MatchWith(MakeFinding(FindingScope::kNode, {3}), MakeFault(FaultKind::kFailing, 3)),
            Match::kNone);
}

TEST_F(ScorerTest, CountsRoundsAndRunsUntilTheRightName) {
  scenario_.faults = {MakeFault(FaultKind::kNode, 3)};
  const Finding nic = MakeFinding(FindingScope::kNic, {3}, "mlx5_0");
  const Finding node = MakeFinding(FindingScope::kNode, {3});
  const Score score = Play({{}, {nic}, {node}, {node}});
  const FaultScore& fault = score.faults[0];
  EXPECT_TRUE(fault.exposed && fault.found && fault.right);
  EXPECT_EQ(fault.found_after, 2 * kRound);
  EXPECT_EQ(fault.runs_until_found, 2u);
  EXPECT_EQ(fault.right_after, 3 * kRound);
  EXPECT_EQ(fault.rounds_until_right, 3u);
  EXPECT_EQ(fault.symptoms, 1u);
  EXPECT_TRUE(score.false_findings.empty());
  EXPECT_EQ(score.pages, 2u);
  EXPECT_EQ(score.pages_false, 0u);
}

TEST_F(ScorerTest, TheNameThatItBoreLongestCounts) {
  scenario_.faults = {MakeFault(FaultKind::kNode, 3)};
  const Finding nic = MakeFinding(FindingScope::kNic, {3}, "mlx5_0");
  const Finding node = MakeFinding(FindingScope::kNode, {3});
  const Score score = Play({{nic}, {nic}, {node}});
  EXPECT_TRUE(score.faults[0].found);
  EXPECT_FALSE(score.faults[0].right);
  EXPECT_EQ(score.faults[0].named, (Name{"nic", "node-000003/mlx5_0"}));
}

TEST_F(ScorerTest, WhatNoActiveFaultExplainsIsFalse) {
  scenario_.faults = {MakeFault(FaultKind::kNode, 3), MakeFault(FaultKind::kTransient, 20)};
  const Finding other = MakeFinding(FindingScope::kNode, {5});
  const Finding transient = MakeFinding(FindingScope::kNode, {20});
  const Score score = Play({{other}, {other, transient}});
  EXPECT_EQ(score.false_findings.size(), 2u);
  EXPECT_EQ(score.pages_false, 2u);
  EXPECT_EQ(score.FaultsToFind(scenario_), 1u) << "a transient is not to be found";
  EXPECT_EQ(score.Found(scenario_), 0u);
  const Score early = Play({{MakeFinding(FindingScope::kNode, {3})}}, kOnset - absl::Hours(5));
  EXPECT_EQ(early.false_findings.size(), 1u);
}

TEST_F(ScorerTest, NotesAndUntoldFindingsArePagesToNobody) {
  Finding note = MakeFinding(FindingScope::kPair, {5, 6});
  note.kind = FindingKind::kTransient;
  note.severity = Severity::kInfo;
  EXPECT_TRUE(Play({{note}}).false_findings.empty());
  is_told_ = false;
  const Score score = Play({{MakeFinding(FindingScope::kNode, {5})}});
  EXPECT_EQ(score.false_findings.size(), 1u);
  EXPECT_EQ(score.pages_false, 0u);
}

TEST_F(ScorerTest, AnnouncedWorkExplainsAFindingButNoPage) {
  scenario_.maintenance = {{kOnset, kOnset + absl::Hours(2), 8, 4, 0.5, kOnset + absl::Hours(2)}};
  const Score score = Play({{MakeFinding(FindingScope::kNode, {9})}});
  EXPECT_TRUE(score.false_findings.empty());
  EXPECT_EQ(score.pages_false, 1u);
}

TEST_F(ScorerTest, AFaultThatNoRunCrossedIsNotAskedFor) {
  Fault pair = MakeFault(FaultKind::kPair, 0);
  pair.peer = 2;  // runs are between 0 and 1, 2 and 3, …
  scenario_.faults = {pair, LeafFault(FaultKind::kUplink, 0), LeafFault(FaultKind::kLeaf, 0)};
  const Score score = Play({{}, {}});
  EXPECT_FALSE(score.faults[0].exposed);
  EXPECT_FALSE(score.faults[1].exposed) << "no run left the leaf";
  EXPECT_TRUE(score.faults[2].exposed);
  EXPECT_EQ(score.FaultsToFind(scenario_), 1u);
}

}  // namespace
}  // namespace weft::sim
