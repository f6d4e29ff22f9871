#include "server/plan/planner.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "server/plan/rounds.h"

namespace weft {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'800'000'000);
constexpr absl::Duration kPeriod = absl::Seconds(60);

PlannerOptions OptionsWithCap(size_t cap) {
  PlannerOptions options;
  options.spec.name = "fabric_write";
  options.period = kPeriod;
  options.max_concurrent_runs = cap;
  return options;
}

std::vector<PlanNode> Nodes(size_t n, const std::string& cohort = "") {
  std::vector<PlanNode> nodes(n);
  for (size_t i = 0; i < n; ++i) {
    nodes[i].id = absl::StrFormat("%s-node-%03d", cohort, i);
    nodes[i].cohort = cohort;
  }
  return nodes;
}

std::pair<std::string, std::string> Ends(const weft::Run& run) {
  return {std::min(run.participants[0], run.participants[1]),
          std::max(run.participants[0], run.participants[1])};
}

TEST(PlannerTest, ARoundPairsAllNodesAndTheNextOneComesAPeriodLater) {
  Planner planner(OptionsWithCap(100));
  const auto nodes = Nodes(8);
  const std::vector<weft::Run> runs = planner.Plan(nodes, {}, 0, kStart);
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_EQ(runs[0].round, 1u);
  EXPECT_EQ(runs[0].plan_time, kStart);
  EXPECT_EQ(runs[0].spec.name, "fabric_write");
  EXPECT_EQ(planner.NextRoundTime(), kStart + kPeriod);
  EXPECT_TRUE(planner.Plan(nodes, {}, 0, kStart + kPeriod - absl::Seconds(1)).empty());
  EXPECT_EQ(planner.Plan(nodes, {}, 0, kStart + kPeriod).size(), 4u);
}

TEST(PlannerTest, ACohortOfOnePlansNothing) {
  Planner planner(OptionsWithCap(100));
  auto nodes = Nodes(1, "a");
  nodes.push_back(Nodes(1, "b")[0]);
  EXPECT_TRUE(planner.Plan(nodes, {}, 0, kStart).empty());
  EXPECT_EQ(planner.rounds_begun(), 0u);
}

TEST(PlannerTest, GroupsOfOneNeedNoPartner) {
  PlannerOptions options = OptionsWithCap(100);
  options.group_size = 1;
  Planner planner(options);
  const std::vector<weft::Run> runs = planner.Plan(Nodes(3), {}, 0, kStart);
  ASSERT_EQ(runs.size(), 3u);
  for (const weft::Run& run : runs) EXPECT_EQ(run.participants.size(), 1u);
}

TEST(PlannerTest, AGroupWaitsUntilAllItsMembersAreFree) {
  PlannerOptions options = OptionsWithCap(100);
  options.group_size = 4;
  Planner planner(options);
  const auto nodes = Nodes(4);
  EXPECT_TRUE(planner.Plan(nodes, {nodes[2].id}, 1, kStart).empty());
  EXPECT_EQ(planner.waiting_runs(), 1u);
  const std::vector<weft::Run> runs = planner.Plan(nodes, {}, 0, kStart + absl::Seconds(1));
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(std::set<std::string>(runs[0].participants.begin(), runs[0].participants.end()).size(), 4u);
}

TEST(PlannerTest, CohortsAreNotMixed) {
  Planner planner(OptionsWithCap(100));
  auto nodes = Nodes(5, "a");
  for (const PlanNode& node : Nodes(4, "b")) nodes.push_back(node);
  const std::vector<weft::Run> runs = planner.Plan(nodes, {}, 0, kStart);
  EXPECT_EQ(runs.size(), 4u);
  for (const weft::Run& run : runs) {
    EXPECT_EQ(run.participants[0].substr(0, 1), run.cohort);
    EXPECT_EQ(run.participants[1].substr(0, 1), run.cohort);
  }
}

TEST(PlannerTest, RoundNumbersGoOnAfterARestart) {
  Planner planner(OptionsWithCap(100));
  EXPECT_FALSE(planner.KnowsCohort(""));
  planner.SetLastRound("", 41);
  planner.SetLastRound("", 7);
  EXPECT_TRUE(planner.KnowsCohort(""));
  EXPECT_EQ(planner.Plan(Nodes(4), {}, 0, kStart)[0].round, 42u);
}

TEST(PlannerTest, MaintenanceOfEitherEndMarksTheRun) {
  Planner planner(OptionsWithCap(100));
  auto nodes = Nodes(4);
  nodes[2].in_maintenance = true;
  for (const weft::Run& run : planner.Plan(nodes, {}, 0, kStart)) {
    const bool has_it = std::count(run.participants.begin(), run.participants.end(), nodes[2].id) != 0;
    EXPECT_EQ(run.in_maintenance, has_it);
  }
}

TEST(PlannerTest, PairsBeyondTheCapWaitAndAreDroppedAndCountedWhenTheNextRoundIsDue) {
  Planner planner(OptionsWithCap(1));
  const auto nodes = Nodes(8);
  EXPECT_EQ(planner.Plan(nodes, {}, 0, kStart).size(), 1u);
  EXPECT_EQ(planner.waiting_runs(), 3u);
  EXPECT_TRUE(planner.Plan(nodes, {}, 1, kStart + absl::Seconds(1)).empty());
  EXPECT_EQ(planner.Plan(nodes, {}, 0, kStart + absl::Seconds(2)).size(), 1u);
  EXPECT_EQ(planner.dropped_runs(), 0u);
  EXPECT_EQ(planner.Plan(nodes, {}, 0, kStart + kPeriod)[0].round, 2u);
  EXPECT_EQ(planner.dropped_runs(), 2u);
}

TEST(PlannerTest, SuspectsComeFirstAndThenTheStalest) {
  Planner planner(OptionsWithCap(1));
  auto nodes = Nodes(8);
  for (size_t i = 0; i < nodes.size(); ++i) nodes[i].last_success = kStart - absl::Minutes(10);
  nodes[3].last_success = kStart - absl::Minutes(90);
  nodes[5].suspect = true;
  const std::vector<std::string> first = planner.Plan(nodes, {}, 0, kStart)[0].participants;
  EXPECT_TRUE(std::count(first.begin(), first.end(), nodes[5].id) == 1);
  const bool met = std::count(first.begin(), first.end(), nodes[3].id) == 1;
  const std::vector<std::string> second = planner.Plan(nodes, {}, 0, kStart)[0].participants;
  EXPECT_TRUE(met || std::count(second.begin(), second.end(), nodes[3].id) == 1);
}

TEST(PlannerTest, BusyAndVanishedNodesAreLeftAlone) {
  Planner planner(OptionsWithCap(100));
  auto nodes = Nodes(4);
  const std::vector<weft::Run> runs = planner.Plan(nodes, {nodes[0].id}, 1, kStart);
  EXPECT_EQ(runs.size(), 1u);
  nodes.erase(nodes.begin());
  EXPECT_TRUE(planner.Plan(nodes, {}, 0, kStart + absl::Seconds(1)).empty());
  EXPECT_EQ(planner.waiting_runs(), 1u);
}

TEST(PlannerTest, AMissedRoundIsNotMadeUpForAndAClockSetBackDoesNotStopRounds) {
  Planner planner(OptionsWithCap(100));
  const auto nodes = Nodes(2);
  EXPECT_EQ(planner.Plan(nodes, {}, 0, kStart).size(), 1u);
  EXPECT_EQ(planner.Plan(nodes, {}, 0, kStart + 10 * kPeriod).size(), 1u);
  EXPECT_TRUE(planner.Plan(nodes, {}, 0, kStart + 10 * kPeriod).empty());
  EXPECT_EQ(planner.Plan(nodes, {}, 0, kStart - absl::Hours(24)).size(), 1u);
}

TEST(PlannerTest, CoverageAgeIsInfiniteForTheNeverMeasuredAndNeverNegative) {
  EXPECT_EQ(CoverageAge(absl::InfinitePast(), kStart), absl::InfiniteDuration());
  EXPECT_EQ(CoverageAge(kStart - absl::Minutes(3), kStart), absl::Minutes(3));
  EXPECT_EQ(CoverageAge(kStart + absl::Minutes(3), kStart), absl::ZeroDuration());
}

TEST(PlannerTest, NeverExceedsTheCapNorUsesANodeTwiceAtOnceWhateverHappens) {
  EXPECT_TRUE(rc::check([] {
    const auto cap = *rc::gen::inRange<size_t>(1, 6);
    Planner planner(OptionsWithCap(cap));
    std::vector<weft::Run> active;
    absl::Time now = kStart;
    for (int step = 0; step < 60; ++step) {
      std::vector<PlanNode> nodes = Nodes(12, step % 2 == 0 ? "x" : "");
      for (const PlanNode& node : Nodes(5, "x")) nodes.push_back(node);
      nodes.resize(*rc::gen::inRange<size_t>(0, nodes.size()));
      std::set<std::string> busy;
      for (const weft::Run& run : active) busy.insert(run.participants.begin(), run.participants.end());
      for (weft::Run& run : planner.Plan(nodes, busy, active.size(), now)) {
        for (const std::string& id : run.participants) RC_ASSERT(busy.insert(id).second);
        active.push_back(std::move(run));
      }
      RC_ASSERT(active.size() <= cap);
      active.resize(active.size() - *rc::gen::inRange<size_t>(0, active.size() + 1));
      now += absl::Seconds(*rc::gen::inRange(0, 50));
    }
  }));
}

TEST(PlannerTest, EveryPairMeetsOncePerCycleWithStableMembershipAndRoundsThatFit) {
  EXPECT_TRUE(rc::check([] {
    const auto n = *rc::gen::inRange<size_t>(2, 24);
    const auto cap = *rc::gen::inRange<size_t>(1, 6);
    Planner planner(OptionsWithCap(cap));
    planner.SetLastRound("", *rc::gen::inRange<uint64_t>(0, 1000));
    const auto nodes = Nodes(n);
    std::map<std::pair<std::string, std::string>, int> met;
    for (size_t round = 0; round < CycleLength(n); ++round) {
      const absl::Time due = kStart + static_cast<int64_t>(round) * kPeriod;
      // Each batch ends within two seconds: at most n / 2 batches fit into the period.
      for (size_t batch = 0; batch < n / 2; ++batch) {
        for (const weft::Run& run : planner.Plan(nodes, {}, 0, due + absl::Seconds(2 * batch)))
          ++met[Ends(run)];
      }
    }
    RC_ASSERT(planner.dropped_runs() == 0u);
    RC_ASSERT(met.size() == n * (n - 1) / 2);
    for (const auto& [pair, times] : met) RC_ASSERT(times == 1);
  }));
}

}  // namespace
}  // namespace weft
