#include "server/detect/detector.h"

#include <algorithm>
#include <functional>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "server/detect/simulated_fleet.h"
#include "server/plan/rounds.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

const absl::Time kStart = absl::FromUnixSeconds(1'800'000'000);

// Rounds of pairs whose numbers the test decides.
class Fleet {
 public:
  explicit Fleet(size_t nodes) : nodes_(nodes) {}

  // Bandwidth in GB/s of the pair (a, b) in this round; negative: both ends time out.
  using Speed = std::function<double(size_t a, size_t b)>;

  std::vector<StoredResult> Round(const Speed& speed) {
    std::vector<StoredResult> results;
    for (const auto& [a, b] : RoundPairs(nodes_, round_)) {
      for (uint32_t rank = 0; rank < 2; ++rank) results.push_back(Make(a, b, rank, speed(a, b)));
    }
    ++round_;
    return results;
  }
  void Play(Detector& detector, int rounds, const Speed& speed) {
    for (int i = 0; i < rounds; ++i) {
      for (const StoredResult& result : Round(speed)) detector.Observe(result);
    }
  }
  static std::string Id(size_t node) { return absl::StrCat("n", node); }

  std::string stack = "stack-1";
  bool in_maintenance = false;

 private:
  StoredResult Make(size_t a, size_t b, uint32_t rank, double gigabytes) {
    StoredResult stored;
    stored.id = ++next_id_;
    stored.probe = "fabric_write";
    stored.participants = {Id(a), Id(b)};
    stored.round = round_;
    stored.plan_time = kStart + absl::Minutes(static_cast<int64_t>(round_));
    stored.in_maintenance = in_maintenance;
    stored.result.run_id = absl::StrCat("run-", round_, "-", a, "-", b);
    stored.result.node_id = stored.participants[rank];
    stored.result.rank = rank;
    stored.result.stack_fingerprint = stack;
    stored.result.outcome = gigabytes < 0 ? Outcome::kTimedOut : Outcome::kOk;
    if (gigabytes < 0) return stored;
    Measurement small;
    small.device = "mlx5_0";
    small.message_size_bytes = 4096;
    small.value = 1e9;
    Measurement large = small;
    large.message_size_bytes = 1 << 20;
    large.value = gigabytes * 1e9;
    stored.result.measurements = {large, small};
    return stored;
  }

  size_t nodes_;
  uint64_t round_ = 0;
  int64_t next_id_ = 0;
};

Fleet::Speed Always(double gigabytes) {
  return [gigabytes](size_t, size_t) { return gigabytes; };
}
Fleet::Speed WithSlow(double gigabytes, const std::map<size_t, double>& ratios) {
  return [=](size_t a, size_t b) {
    double ratio = 1;
    for (const auto& [node, own] : ratios) ratio = a == node || b == node ? std::min(ratio, own) : ratio;
    return gigabytes * ratio;
  };
}

std::vector<Finding> Alerts(const Detector& detector) {
  std::vector<Finding> alerts = detector.Findings();
  std::erase_if(alerts, [](const Finding& finding) { return finding.severity == Severity::kInfo; });
  return alerts;
}
std::vector<std::string> Named(const Detector& detector) {
  std::vector<std::string> names;
  for (const Finding& finding : Alerts(detector)) {
    names.insert(names.end(), finding.node_ids.begin(), finding.node_ids.end());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class DetectorTest : public ::testing::Test {
 protected:
  Detector detector_{DetectorOptions{}};
};

TEST_F(DetectorTest, ThreeSlowRunsInARowNameTheNodeWithNumbersPartnersAndEvidence) {
  Fleet fleet(8);
  fleet.Play(detector_, 10, Always(48));
  fleet.Play(detector_, 2, WithSlow(48, {{3, 0.6}}));
  EXPECT_THAT(Alerts(detector_), IsEmpty());
  fleet.Play(detector_, 1, WithSlow(48, {{3, 0.6}}));
  const std::vector<Finding> alerts = Alerts(detector_);
  ASSERT_THAT(alerts, SizeIs(1));
  const Finding& finding = alerts[0];
  EXPECT_EQ(finding.kind, FindingKind::kBandwidthDrop);
  EXPECT_EQ(finding.scope, FindingScope::kNode);
  EXPECT_THAT(finding.node_ids, ElementsAre("n3"));
  EXPECT_EQ(finding.part, "");
  EXPECT_EQ(finding.probe, "fabric_write");
  EXPECT_NEAR(finding.ratio, 0.6, 1e-9);
  EXPECT_NEAR(finding.expected, 48e9, 1);
  EXPECT_NEAR(finding.observed, 28.8e9, 1);
  EXPECT_GT(finding.confidence, 0.9);
  EXPECT_EQ(finding.since, kStart + absl::Minutes(10));
  EXPECT_THAT(finding.summary, HasSubstr("fell to 60 % of expected"));
  EXPECT_THAT(finding.summary, HasSubstr("3 partners"));
  ASSERT_THAT(finding.evidence, SizeIs(3));
  EXPECT_GT(finding.evidence[0].time, finding.evidence[2].time);
  EXPECT_NEAR(finding.evidence[0].expected, 48e9, 1);
}

TEST_F(DetectorTest, AFindingEndsAfterThreeGoodRuns) {
  Fleet fleet(8);
  fleet.Play(detector_, 10, Always(48));
  fleet.Play(detector_, 5, WithSlow(48, {{3, 0.6}}));
  fleet.Play(detector_, 2, Always(48));
  EXPECT_THAT(Named(detector_), ElementsAre("n3"));
  fleet.Play(detector_, 1, Always(48));
  EXPECT_THAT(detector_.Findings(), IsEmpty());
}

TEST_F(DetectorTest, TheSummaryOfAFindingThatIsHeldSaysThatItsNodeRecovers) {
  Detector patient{DetectorOptions{.recovered_runs = 6}};
  Fleet fleet(8);
  fleet.Play(patient, 10, Always(48));
  fleet.Play(patient, 5, WithSlow(48, {{3, 0.6}}));
  fleet.Play(patient, 1, Always(50));
  ASSERT_THAT(Alerts(patient), SizeIs(1));
  EXPECT_THAT(Alerts(patient)[0].summary, HasSubstr("is recovering: 60 % of expected"));
  fleet.Play(patient, 4, Always(50));
  ASSERT_THAT(Alerts(patient), SizeIs(1));
  EXPECT_THAT(Alerts(patient)[0].summary,
              HasSubstr("is recovering: 104 % of expected (50.0 GB/s of 48.0 GB/s) after slow runs with"));
  EXPECT_THAT(Alerts(patient)[0].summary, Not(HasSubstr("fell to")));
}

TEST_F(DetectorTest, NodesThatNeverWereFastAreNamedByTheirCohort) {
  Fleet fleet(16);
  fleet.Play(detector_, 15, WithSlow(48, {{4, 0.5}, {11, 0.5}}));
  const std::vector<Finding> alerts = Alerts(detector_);
  ASSERT_THAT(Named(detector_), ElementsAre("n11", "n4"));
  for (const Finding& finding : alerts) {
    EXPECT_EQ(finding.kind, FindingKind::kBelowCohort);
    EXPECT_NEAR(finding.ratio, 0.5, 0.02);
    EXPECT_THAT(finding.summary, HasSubstr("of its cohort's"));
  }
  fleet.Play(detector_, 6, Always(48));
  EXPECT_THAT(detector_.Findings(), IsEmpty());
}

TEST_F(DetectorTest, ACohortOfTwoKindsOfMachinesIsNoFinding) {
  Fleet fleet(16);
  fleet.Play(detector_, 60, [](size_t a, size_t b) { return a % 2 == 0 && b % 2 == 0 ? 48 : 24; });
  EXPECT_THAT(Alerts(detector_), IsEmpty());
}

TEST_F(DetectorTest, AConstantSeriesToleratesTheSmallestStepAndAlertsOnALargeOne) {
  Fleet fleet(8);
  fleet.Play(detector_, 201, Always(48));
  EXPECT_THAT(detector_.Findings(), IsEmpty());
  fleet.Play(detector_, 20, WithSlow(48, {{0, 47.999 / 48}}));
  EXPECT_THAT(detector_.Findings(), IsEmpty());
  fleet.Play(detector_, 3, WithSlow(48, {{0, 0.5}}));
  EXPECT_THAT(Named(detector_), ElementsAre("n0"));
}

TEST_F(DetectorTest, ALongRegressionStaysOpenAndTheBaselineStaysWhereItWas) {
  Fleet fleet(8);
  std::mt19937_64 random(41);
  const auto noisy = [&](double level_of_2) {
    return [&random, level_of_2](size_t a, size_t b) {
      return std::normal_distribution<double>(a == 2 || b == 2 ? level_of_2 : 48, 0.3)(random);
    };
  };
  fleet.Play(detector_, 100, noisy(48));
  fleet.Play(detector_, 3, noisy(36));
  for (int i = 3; i < 60; ++i) {
    const std::vector<Finding> alerts = Alerts(detector_);
    ASSERT_THAT(alerts, SizeIs(1)) << "slow run " << i;
    EXPECT_THAT(alerts[0].node_ids, ElementsAre("n2"));
    EXPECT_NEAR(alerts[0].expected, 48e9, 0.5e9);
    EXPECT_NEAR(alerts[0].ratio, 0.75, 0.03);
    fleet.Play(detector_, 1, noisy(36));
  }
}

TEST_F(DetectorTest, SingleSpikesAreNotedAndNeverAlert) {
  Fleet fleet(8);
  fleet.Play(detector_, 100, Always(48));
  for (int spike = 0; spike < 2; ++spike) {
    fleet.Play(detector_, 1, WithSlow(48, {{5, 0.5}}));
    const std::vector<Finding> findings = detector_.Findings();
    ASSERT_THAT(findings, SizeIs(1));
    EXPECT_EQ(findings[0].kind, FindingKind::kTransient);
    EXPECT_EQ(findings[0].severity, Severity::kInfo);
    EXPECT_EQ(findings[0].scope, FindingScope::kPair);
    fleet.Play(detector_, 9, Always(48));
    EXPECT_THAT(detector_.Findings(), IsEmpty());
  }
  fleet.Play(detector_, 2, WithSlow(48, {{5, 0.5}}));
  EXPECT_THAT(Alerts(detector_), IsEmpty());
}

TEST_F(DetectorTest, ANodeWhoseRunsTimeOutIsNamedAndItsPartnersAreNot) {
  Fleet fleet(8);
  fleet.Play(detector_, 10, Always(48));
  const Fleet::Speed dead = [](size_t a, size_t b) { return a == 6 || b == 6 ? -1 : 48; };
  fleet.Play(detector_, 3, dead);
  for (int i = 3; i < 20; ++i) {
    ASSERT_THAT(Named(detector_), ElementsAre("n6"));
    EXPECT_EQ(Alerts(detector_)[0].kind, FindingKind::kProbeFailure);
    fleet.Play(detector_, 1, dead);
  }
  fleet.Play(detector_, 3, Always(48));
  EXPECT_THAT(Alerts(detector_), IsEmpty());
}

TEST_F(DetectorTest, PartnerMissingBlamesThePartnerAndNotTheReporter) {
  Fleet fleet(4);
  fleet.Play(detector_, 10, Always(48));
  for (int i = 0; i < 9; ++i) {
    for (StoredResult& result : fleet.Round(Always(48))) {
      const bool is_dead = result.result.node_id == "n1";
      const bool meets_dead = result.participants[0] == "n1" || result.participants[1] == "n1";
      if (is_dead) continue;
      if (meets_dead) result.result.outcome = Outcome::kPartnerMissing;
      detector_.Observe(result);
      ASSERT_THAT(Named(detector_), ::testing::AnyOf(IsEmpty(), ElementsAre("n1")));
    }
  }
  EXPECT_THAT(Named(detector_), ElementsAre("n1"));
}

TEST_F(DetectorTest, SkippedRunsAreNoEvidence) {
  Fleet fleet(4);
  fleet.Play(detector_, 10, Always(48));
  for (int i = 0; i < 9; ++i) {
    for (StoredResult& result : fleet.Round(Always(-1))) {
      if (result.result.rank == 0) result.result.outcome = Outcome::kSkippedBusy;
      detector_.Observe(result);
    }
  }
  EXPECT_THAT(detector_.Findings(), IsEmpty());
}

TEST_F(DetectorTest, TwoSlowNodesAreBothNamedAndNobodyElse) {
  for (size_t nodes = 6; nodes <= 16; ++nodes) {
    Detector detector{DetectorOptions{}};
    Fleet fleet(nodes);
    fleet.Play(detector, 12, Always(48));
    const Fleet::Speed slow = WithSlow(48, {{0, 0.4}, {nodes - 2, 0.7}});
    std::vector<std::string> expected = {Fleet::Id(0), Fleet::Id(nodes - 2)};
    for (int i = 0; i < 30; ++i) {
      fleet.Play(detector, 1, slow);
      for (const std::string& name : Named(detector)) {
        ASSERT_THAT(expected, ::testing::Contains(name)) << nodes << " nodes, slow round " << i;
      }
    }
    EXPECT_EQ(Named(detector), expected) << nodes << " nodes";
  }
}

TEST_F(DetectorTest, ASlowPathBetweenTwoGoodNodesIsAPairFinding) {
  Fleet fleet(6);
  fleet.Play(detector_, 10, Always(48));
  const Fleet::Speed path = [](size_t a, size_t b) {
    return std::min(a, b) == 1 && std::max(a, b) == 4 ? 24 : 48;
  };
  fleet.Play(detector_, 20, path);
  const std::vector<Finding> alerts = Alerts(detector_);
  ASSERT_THAT(alerts, SizeIs(1));
  EXPECT_EQ(alerts[0].scope, FindingScope::kPair);
  EXPECT_THAT(alerts[0].node_ids, ElementsAre("n1", "n4"));
  EXPECT_NEAR(alerts[0].ratio, 0.5, 1e-9);
  fleet.Play(detector_, 15, Always(48));
  EXPECT_THAT(detector_.Findings(), IsEmpty());
}

TEST_F(DetectorTest, AFleetWideShiftIsOneFindingAndOneNodesOwnFaultShowsThroughIt) {
  Fleet fleet(12);
  fleet.Play(detector_, 12, Always(48));
  for (int i = 0; i < 8; ++i) {
    fleet.Play(detector_, 1, Always(36));
    ASSERT_THAT(Named(detector_), IsEmpty()) << "slow round " << i;
  }
  std::vector<Finding> alerts = Alerts(detector_);
  ASSERT_THAT(alerts, SizeIs(1));
  EXPECT_EQ(alerts[0].scope, FindingScope::kFleet);
  EXPECT_NEAR(alerts[0].ratio, 0.75, 0.01);
  fleet.Play(detector_, 4, WithSlow(36, {{7, 0.5}}));
  EXPECT_THAT(Named(detector_), ElementsAre("n7"));
  fleet.Play(detector_, 6, Always(48));
  EXPECT_THAT(detector_.Findings(), IsEmpty());
}

TEST_F(DetectorTest, ANewStackIsANewBaselineAndNoFinding) {
  Fleet fleet(8);
  fleet.Play(detector_, 20, Always(48));
  fleet.stack = "stack-2";
  for (int i = 0; i < 30; ++i) {
    fleet.Play(detector_, 1, Always(30));
    ASSERT_THAT(Alerts(detector_), IsEmpty()) << "round " << i;
  }
  fleet.Play(detector_, 3, WithSlow(30, {{1, 0.6}}));
  EXPECT_THAT(Named(detector_), ElementsAre("n1"));
}

TEST_F(DetectorTest, RunsInMaintenanceTrainNothingButAreJudged) {
  Fleet fleet(8);
  fleet.in_maintenance = true;
  fleet.Play(detector_, 20, Always(40));
  for (const NodeLevel& level : detector_.Levels()) EXPECT_EQ(level.expected, 0);
  fleet.in_maintenance = false;
  fleet.Play(detector_, 10, Always(48));
  fleet.in_maintenance = true;
  fleet.Play(detector_, 3, WithSlow(48, {{2, 0.5}}));
  EXPECT_THAT(Named(detector_), ElementsAre("n2"));
}

TEST_F(DetectorTest, ABacklogThatArrivesNewestFirstGivesTheFindingsOfTheOrderedOne) {
  Fleet fleet(8);
  fleet.Play(detector_, 12, Always(48));
  std::vector<StoredResult> backlog;
  for (int i = 0; i < 4; ++i) {
    for (StoredResult& result : fleet.Round(WithSlow(48, {{3, 0.5}}))) backlog.push_back(std::move(result));
  }
  for (int i = 0; i < 4; ++i) {
    for (StoredResult& result : fleet.Round(Always(48))) backlog.push_back(std::move(result));
  }
  std::reverse(backlog.begin(), backlog.end());
  for (const StoredResult& result : backlog) {
    detector_.Observe(result);
    ASSERT_THAT(Alerts(detector_), IsEmpty()) << "it is over already";
  }
}

TEST_F(DetectorTest, LateGoodResultsOfLongAgoCloseNothing) {
  Fleet fleet(8);
  fleet.Play(detector_, 10, Always(48));
  std::vector<StoredResult> late;
  for (int i = 0; i < 3; ++i) {
    for (StoredResult& result : fleet.Round(Always(48))) late.push_back(std::move(result));
  }
  fleet.Play(detector_, 4, WithSlow(48, {{3, 0.5}}));
  ASSERT_THAT(Named(detector_), ElementsAre("n3"));
  for (const StoredResult& result : late) detector_.Observe(result);
  EXPECT_THAT(Named(detector_), ElementsAre("n3"));
}

TEST_F(DetectorTest, TheSameResultsAgainChangeNothing) {
  Fleet fleet(8);
  for (int i = 0; i < 10; ++i) {
    for (const StoredResult& result : fleet.Round(Always(48))) detector_.Observe(result);
  }
  const std::vector<StoredResult> round = fleet.Round(WithSlow(48, {{3, 0.5}}));
  for (int again = 0; again < 5; ++again) {
    for (const StoredResult& result : round) detector_.Observe(result);
  }
  EXPECT_THAT(Alerts(detector_), IsEmpty());
}

TEST_F(DetectorTest, GarbageIsIgnored) {
  StoredResult result;
  detector_.Observe(result);
  result.participants = {"a", "b"};
  result.result.node_id = "c";
  detector_.Observe(result);
  result.result.node_id = "a";
  result.result.rank = 7;
  detector_.Observe(result);
  result.participants = {"a", "a"};
  result.result.rank = 0;
  detector_.Observe(result);
  EXPECT_THAT(detector_.Findings(), IsEmpty());
  EXPECT_THAT(detector_.TakeChangedStates(), IsEmpty());
}

TEST_F(DetectorTest, OneSlowNicOfTwoIsNamedAsANicAndBothAsTheNode) {
  Fleet fleet(8);
  const auto play = [&](int rounds, double first, double second) {
    for (int i = 0; i < rounds; ++i) {
      for (StoredResult& result : fleet.Round(Always(48))) {
        const bool is_slow = result.participants[0] == "n5" || result.participants[1] == "n5";
        Measurement other = result.result.measurements[0];
        other.device = "mlx5_1";
        other.value = 48e9 * (is_slow ? second : 1);
        result.result.measurements[0].value *= is_slow ? first : 1;
        result.result.measurements.push_back(other);
        detector_.Observe(result);
      }
    }
  };
  play(10, 1, 1);
  play(4, 1, 0.5);
  ASSERT_THAT(Alerts(detector_), SizeIs(1));
  EXPECT_EQ(Alerts(detector_)[0].scope, FindingScope::kNic);
  EXPECT_EQ(Alerts(detector_)[0].part, "mlx5_1");
  EXPECT_THAT(Named(detector_), ElementsAre("n5"));
  play(4, 0.4, 0.5);
  ASSERT_THAT(Alerts(detector_), SizeIs(1));
  EXPECT_EQ(Alerts(detector_)[0].scope, FindingScope::kNode);
  EXPECT_EQ(Alerts(detector_)[0].part, "");
}

TEST_F(DetectorTest, TwoNodesAloneCanOnlyBeToldApartAsAPair) {
  Fleet fleet(2);
  fleet.Play(detector_, 20, Always(48));
  fleet.Play(detector_, 5, Always(24));
  ASSERT_THAT(Alerts(detector_), SizeIs(1));
  EXPECT_EQ(Alerts(detector_)[0].scope, FindingScope::kPair);
}

TEST_F(DetectorTest, LevelsShowWhereEachNodeStands) {
  Fleet fleet(8);
  fleet.Play(detector_, 10, Always(48));
  fleet.Play(detector_, 4, WithSlow(48, {{3, 0.5}}));
  const std::vector<NodeLevel> levels = detector_.Levels();
  ASSERT_THAT(levels, SizeIs(8));
  for (const NodeLevel& level : levels) {
    EXPECT_NEAR(level.expected, 48e9, 1);
    EXPECT_NEAR(level.observed, level.node_id == "n3" ? 24e9 : 48e9, 1) << level.node_id;
    EXPECT_EQ(level.time, kStart + absl::Minutes(13));
  }
}

TEST_F(DetectorTest, ADamagedStateIsRefusedByNameAndNeverCrashes) {
  Fleet fleet(4);
  fleet.Play(detector_, 8, WithSlow(48, {{1, 0.5}}));
  const std::vector<DetectorState> states = detector_.TakeChangedStates();
  ASSERT_FALSE(states.empty());
  for (const DetectorState& state : states) {
    for (size_t size = 1; size < state.blob.size(); ++size) {
      Detector other{DetectorOptions{}};
      const absl::Status status = other.Restore({{state.key, state.blob.substr(0, size)}});
      ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss);
      ASSERT_THAT(std::string(status.message()), HasSubstr(state.key));
    }
  }
}

// Findings and memory after each result are those of a detector that was never interrupted.
TEST(DetectorProperty, ARestartAtAnyPointChangesNothing) {
  EXPECT_TRUE(rc::check([] {
    SimulatedFleetOptions options;
    options.nodes = *rc::gen::inRange<size_t>(2, 9);
    options.seed = *rc::gen::arbitrary<uint64_t>();
    options.dip_rate = 0.1;
    options.lost_rate = 0.02;
    options.late_rate = 0.1;
    SimulatedFleet fleet(options);
    Detector uninterrupted{DetectorOptions{}};
    Detector restarted{DetectorOptions{}};
    std::map<std::string, std::string> memory;
    std::mt19937_64 random(options.seed);
    const auto observe = [&](const StoredResult& result) {
      uninterrupted.Observe(result);
      restarted.Observe(result);
      if (random() % 10 != 0) return;
      for (DetectorState& state : restarted.TakeChangedStates()) memory[state.key] = std::move(state.blob);
      std::vector<DetectorState> states;
      for (const auto& [key, blob] : memory) states.push_back({key, blob});
      restarted = Detector(DetectorOptions{});
      RC_ASSERT(restarted.Restore(states).ok());
    };
    for (int round = 0; round < 50; ++round) {
      if (round % 5 == 0) fleet.SetHealth(random() % options.nodes, random() % 2 == 0 ? 1.0 : 0.5);
      if (round % 7 == 0) fleet.SetFailing(random() % options.nodes, random() % 2 == 0);
      fleet.PlayRound(observe);
      RC_ASSERT(restarted.Findings() == uninterrupted.Findings());
      RC_ASSERT(restarted.Levels() == uninterrupted.Levels());
    }
    std::map<std::string, std::string> whole;
    for (DetectorState& state : uninterrupted.TakeChangedStates()) whole[state.key] = std::move(state.blob);
    for (DetectorState& state : restarted.TakeChangedStates()) memory[state.key] = std::move(state.blob);
    std::erase_if(memory, [](const auto& entry) { return entry.second.empty(); });
    std::erase_if(whole, [](const auto& entry) { return entry.second.empty(); });
    RC_ASSERT(memory == whole);
  }));
}

}  // namespace
}  // namespace weft
