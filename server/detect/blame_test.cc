#include "server/detect/blame.h"

#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Link = std::pair<size_t, size_t>;

struct Fabric {
  size_t nodes = 16;
  std::map<size_t, double> slow_nodes;  // capacity
  std::map<Link, double> slow_links;
  double noise = 0.01;
  double dip_rate = 0;
};

// Rounds of random pairs.
std::vector<PairRun> Play(const Fabric& fabric, int rounds, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, 1);
  std::uniform_real_distribution<double> uniform(0, 1);
  const auto capacity = [&](const auto& slow, const auto& key) {
    const auto it = slow.find(key);
    return it == slow.end() ? 1.0 : it->second;
  };
  std::vector<PairRun> runs;
  std::vector<size_t> order(fabric.nodes);
  std::iota(order.begin(), order.end(), 0);
  for (int round = 0; round < rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (size_t i = 0; i + 1 < order.size(); i += 2) {
      const auto [a, b] = std::minmax(order[i], order[i + 1]);
      double value = 390 * std::min(capacity(fabric.slow_nodes, a), capacity(fabric.slow_nodes, b)) *
                     capacity(fabric.slow_links, Link(a, b)) * (1 + fabric.noise * normal(random));
      if (uniform(random) < fabric.dip_rate) value *= 1 - uniform(random) * 0.6;
      runs.push_back({a, b, value});
    }
  }
  return runs;
}

std::vector<size_t> BlamedNodes(const Blame& blame) {
  std::vector<size_t> nodes;
  for (const Suspect& one : blame.suspects) {
    if (one.is_blamed && one.kind == PartKind::kNode) nodes.push_back(one.node);
  }
  return nodes;
}

std::vector<Link> BlamedLinks(const Blame& blame) {
  std::vector<Link> links;
  for (const Suspect& one : blame.suspects) {
    if (one.is_blamed && one.kind == PartKind::kLink) links.emplace_back(one.node, one.peer);
  }
  return links;
}

TEST(BlameTest, NamesASlowNodeWithItsEvidence) {
  Fabric fabric;
  fabric.slow_nodes[5] = 0.8;
  const Blame blame = FindBlame(fabric.nodes, Play(fabric, 4, 1));
  ASSERT_THAT(BlamedNodes(blame), ElementsAre(5));
  EXPECT_THAT(BlamedLinks(blame), IsEmpty());
  const Suspect& suspect = blame.suspects[0];
  EXPECT_NEAR(suspect.capacity, 0.8, 0.02);
  EXPECT_NEAR(blame.reference, 390, 8);
  EXPECT_GT(suspect.confidence, 0.9);
  EXPECT_EQ(suspect.runs, 4);
  EXPECT_EQ(suspect.slow_runs, 4);
  EXPECT_GE(suspect.partners, 2);
}

TEST(BlameTest, OnePartnerIsNotEnoughForANode) {
  std::vector<PairRun> runs;
  for (size_t i = 2; i < 16; i += 2) runs.push_back({i, i + 1, 100});
  for (int i = 0; i < 6; ++i) runs.push_back({0, 1, 60});
  for (size_t i = 2; i < 16; i += 2) runs.push_back({i, (i + 3) % 14 + 2, 101});
  const Blame blame = FindBlame(16, runs);
  EXPECT_THAT(BlamedNodes(blame), IsEmpty());
  EXPECT_THAT(BlamedLinks(blame), ElementsAre(Link(0, 1)));
}

TEST(BlameTest, ALinkIsNamedWhenBothItsEndsAreFineWithOthers) {
  std::vector<PairRun> runs;
  for (size_t a = 0; a < 8; ++a) {
    for (size_t b = a + 1; b < 8; ++b) {
      for (int i = 0; i < 2; ++i)
        runs.push_back({a, b, a == 2 && b == 6 ? 70.0 + i : 100.0 + static_cast<double>((a + b) % 3)});
    }
  }
  const Blame blame = FindBlame(8, runs);
  EXPECT_THAT(BlamedNodes(blame), IsEmpty());
  EXPECT_THAT(BlamedLinks(blame), ElementsAre(Link(2, 6)));
}

TEST(BlameTest, ASingleSlowRunIsASuspicionNotABlame) {
  Fabric fabric;
  std::vector<PairRun> runs = Play(fabric, 4, 9);
  runs[3].value *= 0.6;
  const Blame blame = FindBlame(fabric.nodes, runs);
  EXPECT_THAT(BlamedNodes(blame), IsEmpty());
  EXPECT_THAT(BlamedLinks(blame), IsEmpty());
}

TEST(BlameTest, TwoSlowNodesAreBothNamedAndTheirPartnersAreNot) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Fabric fabric;
    fabric.nodes = 32;
    fabric.slow_nodes = {{3, 0.7}, {17, 0.85}};
    EXPECT_THAT(BlamedNodes(FindBlame(32, Play(fabric, 6, seed))), UnorderedElementsAre(3, 17)) << seed;
  }
}

TEST(BlameTest, NobodyIsBlamedForScatteredDips) {
  int blamed = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Fabric fabric;
    fabric.nodes = 32;
    fabric.dip_rate = 0.02;
    const Blame blame = FindBlame(32, Play(fabric, 4, seed));
    blamed += static_cast<int>(BlamedNodes(blame).size() + BlamedLinks(blame).size());
  }
  EXPECT_LE(blamed, 1);
}

TEST(BlameTest, SenselessRunsAreLeftOut) {
  std::vector<PairRun> runs = Play({}, 4, 2);
  runs.push_back({3, 3, 1});
  runs.push_back({0, 99, 1});
  runs.push_back({0, 1, std::numeric_limits<double>::quiet_NaN()});
  runs.push_back({0, 1, -5});
  EXPECT_THAT(BlamedNodes(FindBlame(16, runs)), IsEmpty());
  EXPECT_THAT(FindBlame(16, {}).suspects, IsEmpty());
  EXPECT_THAT(FindBlame(16, std::vector<PairRun>(10, {0, 1, 0})).suspects, IsEmpty());
}

TEST(BlameTest, NamesAndUnitsDoNotMatter) {
  EXPECT_TRUE(rc::check([] {
    Fabric fabric;
    fabric.nodes = *rc::gen::inRange<size_t>(8, 40);
    fabric.dip_rate = 0.02;
    fabric.slow_nodes[*rc::gen::inRange<size_t>(0, fabric.nodes)] = *rc::gen::inRange(30, 95) / 100.0;
    std::vector<PairRun> runs = Play(fabric, 5, *rc::gen::arbitrary<uint64_t>());
    const std::vector<size_t> blamed = BlamedNodes(FindBlame(fabric.nodes, runs));
    std::vector<size_t> names(fabric.nodes);
    std::iota(names.begin(), names.end(), 0);
    std::mt19937_64 random(*rc::gen::arbitrary<uint64_t>());
    std::shuffle(names.begin(), names.end(), random);
    for (PairRun& run : runs) run = {names[run.b], names[run.a], run.value * 8};
    std::vector<size_t> renamed;
    for (const size_t node : blamed) renamed.push_back(names[node]);
    RC_ASSERT(renamed == BlamedNodes(FindBlame(fabric.nodes, runs)));
  }));
}

}  // namespace
}  // namespace weft
