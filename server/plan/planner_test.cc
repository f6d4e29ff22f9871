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

// Names follow the cabling, 16 nodes on a leaf: the nodes of one leaf must not be met in a row.
TEST(PlannerTest, PartnersOfSuccessiveRoundsLieOnDifferentLeaves) {
  constexpr size_t kNodes = 256, kOnLeaf = 16, kRounds = 8;
  Planner planner(OptionsWithCap(kNodes));
  const auto nodes = Nodes(kNodes);
  std::map<std::string, size_t> leaf;
  for (size_t i = 0; i < kNodes; ++i) leaf[nodes[i].id] = i / kOnLeaf;
  std::map<std::string, std::map<size_t, size_t>> met;  // by node: partners on each leaf
  for (size_t round = 0; round < kRounds; ++round) {
    for (const weft::Run& run : planner.Plan(nodes, {}, 0, kStart + static_cast<int64_t>(round) * kPeriod)) {
      const auto [a, b] = Ends(run);
      ++met[a][leaf[b]];
      ++met[b][leaf[a]];
    }
  }
  size_t on_many = 0;
  for (const auto& [node, leaves] : met) {
    if (leaves.size() >= kRounds - 3) ++on_many;
    for (const auto& [own, times] : leaves) EXPECT_LT(times, kRounds / 2 + 2);
  }
  EXPECT_GT(on_many, kNodes * 9 / 10);
}

std::set<std::string> Members(const std::vector<weft::Run>& runs) {
  std::set<std::string> members;
  for (const weft::Run& run : runs) members.insert(run.participants.begin(), run.participants.end());
  return members;
}

std::string PartnerOf(const std::string& id, const std::vector<weft::Run>& runs) {
  for (const weft::Run& run : runs) {
    if (run.participants[0] == id) return run.participants[1];
    if (run.participants[1] == id) return run.participants[0];
  }
  return "";
}

TEST(PlannerTest, ARoundMeetsRequestsFirstAndStillGivesEveryoneAPartner) {
  EXPECT_TRUE(rc::check([] {
    const auto n = *rc::gen::inRange<size_t>(4, 60);
    Planner planner(OptionsWithCap(n));
    auto nodes = Nodes(n);
    planner.SetLastRound("", *rc::gen::inRange<uint64_t>(0, 1000));
    std::vector<ProbeRequest> requests;
    for (size_t i = *rc::gen::inRange<size_t>(0, n / 2); i > 0; --i) {
      const auto pick = [&] { return nodes[*rc::gen::inRange<size_t>(0, n)].id; };
      requests.push_back({pick(), *rc::gen::arbitrary<bool>() ? pick() : ""});
    }
    planner.SetRequests(requests);
    const std::vector<weft::Run> runs = planner.Plan(nodes, {}, 0, kStart);
    RC_ASSERT(runs.size() == n / 2);
    RC_ASSERT(Members(runs).size() == n / 2 * 2);
    std::set<std::string> taken;
    for (const ProbeRequest& request : requests) {
      if (request.peer.empty() || request.node == request.peer) continue;
      if (taken.count(request.node) == 0 && taken.count(request.peer) == 0) {
        // Only one that stood before it in the list may have its nodes.
        const bool open_before =
            std::any_of(requests.begin(), requests.end(), [&](const ProbeRequest& other) {
              return other.peer.empty() && (other.node == request.node || other.node == request.peer);
            });
        RC_ASSERT(open_before || PartnerOf(request.node, runs) == request.peer);
      }
      taken.insert({request.node, request.peer});
    }
  }));
}

TEST(PlannerTest, AnOpenRequestGetsACalmPartnerThatWasNotMetLately) {
  Planner planner(OptionsWithCap(100));
  auto nodes = Nodes(12);
  for (size_t i = 0; i < 4; ++i) nodes[i].suspect = true;
  std::set<std::string> partners;
  for (int round = 0; round < 8; ++round) {
    planner.SetRequests({{nodes[0].id}});
    const auto runs = planner.Plan(nodes, {}, 0, kStart + round * kPeriod);
    EXPECT_EQ(runs.front().participants[0] == nodes[0].id || runs.front().participants[1] == nodes[0].id,
              true);
    const std::string partner = PartnerOf(nodes[0].id, runs);
    EXPECT_GE(partner, nodes[4].id);
    EXPECT_TRUE(partners.insert(partner).second) << "round " << round << ": " << partner << " again";
  }
}

TEST(PlannerTest, ARequestOfAnotherProbeOrAcrossCohortsMakesNoRun) {
  Planner planner(OptionsWithCap(100));
  auto nodes = Nodes(4, "a");
  for (const PlanNode& node : Nodes(4, "b")) nodes.push_back(node);
  planner.SetRequests({{nodes[0].id, nodes[5].id}, {nodes[1].id, nodes[2].id, "nccl_all_reduce"}});
  Planner plain(OptionsWithCap(100));
  const auto runs = planner.Plan(nodes, {}, 0, kStart);
  const auto expected = plain.Plan(nodes, {}, 0, kStart);
  ASSERT_EQ(runs.size(), expected.size());
  for (size_t i = 0; i < runs.size(); ++i) EXPECT_EQ(runs[i].participants, expected[i].participants);
}

TEST(PlannerTest, ARequestOfOneThatIsAwayWaitsUntilItIsReplaced) {
  Planner planner(OptionsWithCap(100));
  auto nodes = Nodes(8);
  const auto without_first = std::vector<PlanNode>(nodes.begin() + 1, nodes.end());
  planner.SetRequests({{nodes[0].id, nodes[6].id}, {nodes[1].id, nodes[2].id}});
  EXPECT_EQ(PartnerOf(nodes[1].id, planner.Plan(without_first, {}, 0, kStart)), nodes[2].id);
  EXPECT_EQ(PartnerOf(nodes[0].id, planner.Plan(nodes, {}, 0, kStart + kPeriod)), nodes[6].id);

  planner.SetRequests({{nodes[0].id, nodes[5].id}});
  planner.Plan(without_first, {}, 0, kStart + 2 * kPeriod);
  planner.SetRequests({});
  int met = 0;
  for (int round = 3; round < 6; ++round) {
    if (PartnerOf(nodes[0].id, planner.Plan(nodes, {}, 0, kStart + round * kPeriod)) == nodes[5].id) ++met;
  }
  EXPECT_LE(met, 1);  // as the rounds have it
}

TEST(PlannerTest, PartnersOfDeclinersMeetEachOtherInTheSameRound) {
  EXPECT_TRUE(rc::check([] {
    const auto n = *rc::gen::inRange<size_t>(2, 80);
    Planner planner(OptionsWithCap(n));
    const auto nodes = Nodes(n);
    planner.SetLastRound("", *rc::gen::inRange<uint64_t>(0, 1000));
    std::set<std::string> with_job;
    for (const PlanNode& node : nodes) {
      if (*rc::gen::inRange(0, 10) < 4) with_job.insert(node.id);
    }
    std::set<std::string> measured;
    absl::Time now = kStart;
    for (int attempt = 0; attempt < 2; ++attempt, now += absl::Seconds(4)) {
      for (const weft::Run& run : planner.Plan(nodes, {}, 0, now)) {
        bool is_declined = false;
        for (const std::string& id : run.participants) {
          if (with_job.count(id) == 0) continue;
          planner.Decline(id, now + absl::Milliseconds(10));
          is_declined = true;
        }
        if (!is_declined)
          for (const std::string& id : run.participants) RC_ASSERT(measured.insert(id).second);
      }
    }
    RC_ASSERT(!planner.WantsToPlan(now));
    RC_ASSERT(planner.waiting_runs() == 0u);
    // With an odd number one has sat out, and one may be left of those whose partner declined.
    RC_ASSERT(measured.size() + 2 >= n - with_job.size());
  }));
}

TEST(PlannerTest, ADeclinedRequestIsTriedAgainInTheNextRound) {
  Planner planner(OptionsWithCap(100));
  const auto nodes = Nodes(8);
  planner.SetRequests({{nodes[0].id, nodes[6].id}});
  planner.Plan(nodes, {}, 0, kStart);
  planner.Decline(nodes[6].id, kStart);
  EXPECT_EQ(PartnerOf(nodes[0].id, planner.Plan(nodes, {}, 0, kStart + kPeriod)), nodes[6].id);
}

TEST(PlannerTest, NewRequestsWithinARoundAddAFewRunsWithOtherPartners) {
  Planner planner(OptionsWithCap(100));
  auto nodes = Nodes(16);
  nodes[3].suspect = true;
  std::set<std::string> partners = {PartnerOf(nodes[3].id, planner.Plan(nodes, {}, 0, kStart))};
  absl::Time now = kStart;
  size_t runs = 0;
  for (int i = 0; i < 10; ++i) {
    now += absl::Seconds(2);
    planner.SetRequests({{nodes[3].id}});
    for (const weft::Run& run : planner.Plan(nodes, {}, 0, now)) {
      EXPECT_EQ(run.round, 1u);
      EXPECT_TRUE(partners.insert(PartnerOf(nodes[3].id, {run})).second);
      ++runs;
    }
  }
  EXPECT_EQ(runs, 2u);
  EXPECT_EQ(planner.followups(), 2u);
  // What is still asked for begins with the next round.
  const auto next = planner.Plan(nodes, {}, 0, kStart + kPeriod);
  EXPECT_EQ(next.size(), 8u);
  EXPECT_TRUE(partners.insert(PartnerOf(nodes[3].id, next)).second);
}

TEST(PlannerTest, ANodeThatIsBeingMeasuredGetsNoFollowup) {
  Planner planner(OptionsWithCap(100));
  const auto nodes = Nodes(8);
  const std::vector<weft::Run> runs = planner.Plan(nodes, {}, 0, kStart);
  planner.SetRequests({{nodes[0].id}});
  const std::string partner = PartnerOf(nodes[0].id, runs);
  EXPECT_TRUE(planner.Plan(nodes, {nodes[0].id, partner}, 1, kStart + absl::Seconds(2)).empty());
  EXPECT_TRUE(planner.Plan(nodes, {}, 0, kStart + absl::Seconds(4)).empty()) << "the answer was on its way";
  planner.SetRequests({{nodes[0].id}});
  EXPECT_EQ(planner.Plan(nodes, {}, 0, kStart + absl::Seconds(6)).size(), 1u);
}

TEST(PlannerTest, FollowupsOfARoundAreATenthOfItsRunsOrFour) {
  for (const size_t n : {40, 200}) {
    Planner planner(OptionsWithCap(1000));
    const auto nodes = Nodes(n);
    planner.Plan(nodes, {}, 0, kStart);
    std::vector<ProbeRequest> requests;
    for (size_t i = 0; i < n / 4; ++i) requests.push_back({nodes[i].id});
    size_t runs = 0;
    for (int i = 1; i < 10; ++i) {
      planner.SetRequests(requests);
      runs += planner.Plan(nodes, {}, 0, kStart + i * absl::Seconds(5)).size();
    }
    EXPECT_EQ(runs, std::max<size_t>(4, n / 2 / 10));
  }
}

// However much the detector asks for.
TEST(PlannerTest, NoNodeIsMeasuredMoreThanItsBudgetAllows) {
  PlannerOptions options = OptionsWithCap(1000);
  options.period = absl::Minutes(15);
  Planner planner(options);
  const auto nodes = Nodes(40);
  std::map<std::string, size_t> runs;
  const absl::Duration length = absl::Hours(24);
  for (absl::Duration t = absl::ZeroDuration(); t < length; t += absl::Seconds(20)) {
    planner.SetRequests({{nodes[0].id}, {nodes[1].id, nodes[2].id}, {nodes[3].id}});
    for (const weft::Run& run : planner.Plan(nodes, {}, 0, kStart + t)) {
      for (const std::string& id : run.participants) ++runs[id];
    }
  }
  const double periods = absl::FDivDuration(length, options.period);
  for (const auto& [id, count] : runs) {
    EXPECT_LE(static_cast<double>(count), options.runs_per_period * periods + options.run_burst) << id;
    EXPECT_GE(static_cast<double>(count), periods) << id;
  }
  EXPECT_GT(static_cast<double>(runs[nodes[0].id]), periods + 10);
}

}  // namespace
}  // namespace weft
