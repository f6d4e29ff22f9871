#include "server/detect/cohort.h"

#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Cohort = std::vector<std::vector<double>>;

Cohort Healthy(size_t nodes, uint64_t seed, double noise = 0.01) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, 1);
  Cohort cohort;
  for (size_t n = 0; n < nodes; ++n) {
    const double level = 100 * (1 + 0.004 * normal(random));
    auto& samples = cohort.emplace_back();
    for (int i = 0; i < 8; ++i) samples.push_back(level * (1 + noise * normal(random)));
  }
  return cohort;
}

void Scale(std::vector<double>& samples, double factor) {
  for (double& sample : samples) sample *= factor;
}

std::vector<size_t> Slow(const Cohort& cohort) {
  std::vector<size_t> nodes;
  for (const PeerVerdict& one : SlowAmongPeers(cohort)) nodes.push_back(one.node);
  return nodes;
}

TEST(CohortTest, NamesTheSlowNodeAndByHowMuch) {
  Cohort cohort = Healthy(32, 1);
  Scale(cohort[7], 0.9);
  const auto slow = SlowAmongPeers(cohort);
  ASSERT_EQ(slow.size(), 1U);
  EXPECT_EQ(slow[0].node, 7U);
  EXPECT_NEAR(std::exp(slow[0].deviation), 0.9, 0.015);
}

TEST(CohortTest, WhatAllShareBlamesNobody) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Cohort cohort = Healthy(32, seed);
    for (auto& samples : cohort) {
      for (size_t i = 4; i < samples.size(); ++i) samples[i] *= 0.6;
    }
    EXPECT_THAT(Slow(cohort), IsEmpty()) << seed;
  }
}

TEST(CohortTest, ASubPopulationIsNotBlamedButASlowMemberOfItIs) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Cohort cohort = Healthy(64, seed, 0.006);
    for (size_t n = 0; n < 20; ++n) Scale(cohort[n], 0.977);
    EXPECT_THAT(Slow(cohort), IsEmpty()) << seed;
    Scale(cohort[3], 0.93);
    EXPECT_THAT(Slow(cohort), ElementsAre(3)) << seed;
  }
}

TEST(CohortTest, OneDeepDipMakesNobodySlow) {
  Cohort cohort = Healthy(16, 3);
  cohort[2][7] *= 0.3;
  EXPECT_THAT(Slow(cohort), IsEmpty());
}

TEST(CohortTest, MissingSamplesAndAbsentNodesAreNotSlow) {
  Cohort cohort = Healthy(16, 4);
  Scale(cohort[5], 0.85);
  cohort[5][0] = std::numeric_limits<double>::quiet_NaN();
  cohort[6].assign(8, std::numeric_limits<double>::quiet_NaN());
  cohort[8].assign(8, 0);
  cohort[9].clear();
  EXPECT_THAT(Slow(cohort), ElementsAre(5));
}

TEST(CohortTest, TooFewPeersJudgeNobody) {
  Cohort cohort = Healthy(5, 5);
  Scale(cohort[0], 0.5);
  EXPECT_THAT(Slow(cohort), IsEmpty());
}

TEST(CohortTest, EqualNodesAreFine) {
  EXPECT_THAT(Slow(Cohort(16, std::vector<double>(8, 42.0))), IsEmpty());
}

TEST(CohortTest, OrderAndUnitDoNotMatter) {
  EXPECT_TRUE(rc::check([] {
    Cohort cohort = Healthy(*rc::gen::inRange<size_t>(6, 40), *rc::gen::arbitrary<uint64_t>());
    Scale(cohort[0], 0.85);
    std::vector<size_t> order(cohort.size());
    std::iota(order.begin(), order.end(), 0);
    std::mt19937_64 random(*rc::gen::arbitrary<uint64_t>());
    std::shuffle(order.begin(), order.end(), random);
    Cohort shuffled;
    for (const size_t n : order) {
      shuffled.push_back(cohort[n]);
      Scale(shuffled.back(), 4);
    }
    std::vector<size_t> expected = Slow(cohort), found;
    for (const size_t n : Slow(shuffled)) found.push_back(order[n]);
    std::sort(found.begin(), found.end());
    RC_ASSERT(expected == found);
    RC_ASSERT(!expected.empty());
  }));
}

}  // namespace
}  // namespace weft
