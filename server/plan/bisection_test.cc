#include "server/plan/bisection.h"

#include <algorithm>
#include <functional>
#include <random>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rapidcheck.h"

namespace weft {
namespace {

using Ids = std::vector<std::string>;
using Kind = Bisection::Kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Ids Nodes(size_t n) {
  Ids nodes;
  for (size_t i = 0; i < n; ++i) nodes.push_back(absl::StrFormat("node-%03d", i));
  return nodes;
}

// What runs reach: the least of their nodes and of the paths between them, with noise.
struct Fabric {
  std::map<std::string, double> share;  // of the healthy bandwidth; 0: hangs
  std::map<std::pair<std::string, std::string>, double> path;
  double noise = 0.02;
  std::mt19937_64 random{1};

  Bisection::Outcome Run(const Ids& participants) {
    double least = 1;
    for (const std::string& id : participants) {
      if (const auto found = share.find(id); found != share.end()) least = std::min(least, found->second);
    }
    for (const auto& [ends, own] : path) {
      const auto has = [&](const std::string& id) {
        return std::find(participants.begin(), participants.end(), id) != participants.end();
      };
      if (has(ends.first) && has(ends.second)) least = std::min(least, own);
    }
    const double gauss = std::clamp(std::normal_distribution<double>(0, noise)(random), -0.06, 0.06);
    return {least == 0, 50e9 * least * (1 + gauss)};
  }
};

// Plays it to its end and holds it to its cost.
void Play(Bisection& bisection, const std::function<Bisection::Outcome(const Bisection::Test&)>& run,
          const BisectionOptions& options) {
  size_t waves = 0, runs = 0;
  for (auto wave = bisection.NextWave(); !wave.empty(); wave = bisection.NextWave()) {
    ++waves;
    runs += wave.size();
    RC_ASSERT(wave.size() <= options.max_concurrent_runs);
    std::set<std::string> used;
    for (const Bisection::Test& test : wave) {
      RC_ASSERT(test.participants.size() >= 2u);
      RC_ASSERT(test.participants.size() <= options.group_size + 1);
      RC_ASSERT(test.suspects >= 1u && test.suspects <= test.participants.size());
      for (const std::string& id : test.participants) RC_ASSERT(used.insert(id).second);
    }
    for (const Bisection::Test& test : wave) bisection.Record(test.id, run(test));
  }
  RC_ASSERT(runs == bisection.runs());
  RC_ASSERT(runs <= bisection.cost().max_runs);
  RC_ASSERT(waves <= bisection.cost().max_waves);
}

Ids Named(const Bisection& bisection, Kind kind) {
  Ids named;
  for (const Bisection::Verdict& verdict : bisection.Verdicts()) {
    if (verdict.kind != kind) continue;
    named.insert(named.end(), verdict.nodes.begin(), verdict.nodes.end());
    named.insert(named.end(), verdict.others.begin(), verdict.others.end());
  }
  std::sort(named.begin(), named.end());
  return named;
}

// https://github.com/NVIDIA/nccl-tests/issues/106: 16 nodes, two of them at half, never faster.
TEST(BisectionTest, NamesTheTwoNodesThatWereNeverFast) {
  const Ids nodes = Nodes(16);
  for (size_t a = 0; a < 16; ++a) {
    for (size_t b = a + 1; b < 16; ++b) {
      Fabric fabric;
      fabric.share = {{nodes[a], 0.5}, {nodes[b], 0.5}};
      const BisectionOptions options;
      Bisection bisection(nodes, options);
      Play(
          bisection, [&](const auto& test) { return fabric.Run(test.participants); }, options);
      const auto verdicts = bisection.Verdicts();
      EXPECT_EQ(Named(bisection, Kind::kNode), (Ids{nodes[a], nodes[b]}));
      ASSERT_EQ(verdicts.size(), 2u);
      EXPECT_NEAR(verdicts[0].ratio, 0.5, 0.08);
      EXPECT_GE(verdicts[0].evidence.size(), 2u);
    }
  }
}

TEST(BisectionTest, AHealthyFleetCostsTheLeastAndNamesNobody) {
  Fabric fabric;
  const BisectionOptions options;
  Bisection bisection(Nodes(17), options);
  Play(
      bisection, [&](const auto& test) { return fabric.Run(test.participants); }, options);
  EXPECT_TRUE(bisection.Verdicts().empty());
  EXPECT_EQ(bisection.runs(), 9u);
  EXPECT_EQ(bisection.cost().runs_if_healthy, 9u);
}

TEST(BisectionTest, ARunThatWasSlowOnceIsTransient) {
  Fabric fabric;
  const BisectionOptions options;
  Bisection bisection(Nodes(8), options);
  bool is_first = true;
  Play(
      bisection,
      [&](const auto& test) {
        Bisection::Outcome outcome = fabric.Run(test.participants);
        if (std::exchange(is_first, false)) outcome.bandwidth *= 0.5;
        return outcome;
      },
      options);
  const auto verdicts = bisection.Verdicts();
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].kind, Kind::kTransient);
}

TEST(BisectionTest, WhereNobodyPassesNothingIsDecided) {
  const BisectionOptions options;
  Bisection bisection(Nodes(8), options);
  Play(
      bisection,
      [](const auto&) {
        return Bisection::Outcome{true, 0};
      },
      options);
  EXPECT_EQ(Named(bisection, Kind::kUndecided), Nodes(8));
  EXPECT_TRUE(Named(bisection, Kind::kNode).empty());
}

TEST(BisectionTest, ASlowFleetIsKnownByWhatIsExpected) {
  BisectionOptions options;
  options.expected = 50e9;
  Fabric fabric;
  const Ids nodes = Nodes(8);
  for (const std::string& id : nodes) fabric.share[id] = 0.6;
  Bisection bisection(nodes, options);
  Play(
      bisection, [&](const auto& test) { return fabric.Run(test.participants); }, options);
  EXPECT_EQ(Named(bisection, Kind::kUndecided), nodes);
}

TEST(BisectionTest, ADeclinerIsLeftOutAndItsPartnerIsStillTested) {
  const Ids nodes = Nodes(8);
  Fabric fabric;
  Bisection bisection(nodes, BisectionOptions{});
  auto wave = bisection.NextWave();
  const Bisection::Test declined = wave[0];
  fabric.share[declined.participants[1]] = 0.5;
  for (const auto& test : wave) {
    if (test.id == declined.id) {
      bisection.RecordDeclined(test.id, declined.participants[0]);
    } else {
      bisection.Record(test.id, fabric.Run(test.participants));
    }
  }
  for (wave = bisection.NextWave(); !wave.empty(); wave = bisection.NextWave()) {
    for (const auto& test : wave) {
      EXPECT_THAT(test.participants, testing::Not(testing::Contains(declined.participants[0])));
      bisection.Record(test.id, fabric.Run(test.participants));
    }
  }
  EXPECT_THAT(Named(bisection, Kind::kNode), ElementsAre(declined.participants[1]));
  EXPECT_THAT(Named(bisection, Kind::kNotTested), ElementsAre(declined.participants[0]));
}

TEST(BisectionTest, RefusesWhatItCannotCompare) {
  EXPECT_THAT(std::string(Bisection::Check(Nodes(3), {}).message()), HasSubstr("at least 4"));
  EXPECT_THAT(std::string(Bisection::Check({"a", "b", "c", "a"}, {}).message()),
              HasSubstr("a is named twice"));
  BisectionOptions options;
  options.group_size = 1;
  EXPECT_FALSE(Bisection::Check(Nodes(4), options).ok());
  EXPECT_TRUE(Bisection::Check(Nodes(4), {}).ok());
}

// No to three faulty nodes, or one pair that meets in the first round: exactly these are named, within the
// cost that was stated.
TEST(BisectionProperty, NamesExactlyTheFaultyPartsWithinTheStatedCost) {
  EXPECT_TRUE(rc::check([] {
    BisectionOptions options;
    options.group_size = *rc::gen::element<size_t>(2, 3, 4, 8, 16);
    options.max_concurrent_runs = *rc::gen::inRange<size_t>(1, 20);
    options.rounds = *rc::gen::inRange<size_t>(1, 4);
    const auto n = *rc::gen::inRange<size_t>(5 * options.group_size, 12 * options.group_size);
    const Ids nodes = Nodes(n);
    Fabric fabric;
    fabric.noise = *rc::gen::inRange(1, 25) / 1000.0;
    fabric.random.seed(*rc::gen::arbitrary<uint64_t>());
    Ids faulty;
    const bool is_pair = *rc::gen::inRange(0, 3) == 0;
    const double share = *rc::gen::inRange(10, 70) / 100.0;
    if (is_pair) {
      options.rounds = 1;
      auto all_at_once = options;
      all_at_once.max_concurrent_runs = n;
      const auto wave = Bisection(nodes, all_at_once).NextWave();
      const Ids group = wave[*rc::gen::inRange<size_t>(0, wave.size())].participants;
      const auto first = *rc::gen::inRange<size_t>(0, group.size() - 1);
      const auto second = *rc::gen::inRange<size_t>(first + 1, group.size());
      faulty = {group[first], group[second]};
      fabric.path[{faulty[0], faulty[1]}] = share;
    } else {
      for (size_t i = *rc::gen::inRange<size_t>(0, 4); i > 0; --i) {
        const std::string id = nodes[*rc::gen::inRange<size_t>(0, n)];
        fabric.share[id] = *rc::gen::inRange(0, 4) == 0 ? 0 : share;
      }
      for (const auto& [id, own] : fabric.share) faulty.push_back(id);
    }
    std::sort(faulty.begin(), faulty.end());
    Bisection bisection(nodes, options);
    Play(
        bisection, [&](const auto& test) { return fabric.Run(test.participants); }, options);
    RC_ASSERT(Named(bisection, is_pair ? Kind::kPair : Kind::kNode) == faulty);
    RC_ASSERT(bisection.Verdicts().size() == (is_pair ? 1 : faulty.size()));
    RC_ASSERT(bisection.cost() == Bisection::CostOf(n, options));
  }));
}

TEST(BisectionProperty, EndsWithinItsCostWhateverRunsAndNodesDo) {
  EXPECT_TRUE(rc::check([] {
    BisectionOptions options;
    options.group_size = *rc::gen::inRange<size_t>(2, 12);
    options.max_concurrent_runs = *rc::gen::inRange<size_t>(1, 8);
    options.rounds = *rc::gen::inRange<size_t>(1, 4);
    options.max_faults = *rc::gen::inRange<size_t>(0, 6);
    const Ids nodes = Nodes(*rc::gen::inRange<size_t>(4, 60));
    Bisection bisection(nodes, options);
    std::mt19937_64 random(*rc::gen::arbitrary<uint64_t>());
    const auto bad = *rc::gen::inRange<uint64_t>(0, 100);
    const auto busy = *rc::gen::inRange<uint64_t>(0, 30);
    size_t runs = 0, waves = 0, declined = 0;
    for (auto wave = bisection.NextWave(); !wave.empty(); wave = bisection.NextWave()) {
      ++waves;
      std::set<std::string> used;
      for (const Bisection::Test& test : wave) {
        for (const std::string& id : test.participants) RC_ASSERT(used.insert(id).second);
        if (random() % 100 < busy) {
          ++declined;
          bisection.RecordDeclined(test.id, test.participants[random() % test.participants.size()]);
          continue;
        }
        ++runs;
        const bool is_bad = random() % 100 < bad;
        bisection.Record(test.id, {is_bad && random() % 2 == 0, is_bad ? 5e9 : 50e9});
      }
    }
    RC_ASSERT(runs == bisection.runs());
    RC_ASSERT(runs <= bisection.cost().max_runs);
    RC_ASSERT(waves <= bisection.cost().max_waves + declined);
    for (const Bisection::Verdict& verdict : bisection.Verdicts()) RC_ASSERT(!verdict.nodes.empty());
  }));
}

}  // namespace
}  // namespace weft
