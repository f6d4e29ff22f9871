#include "server/plan/rounds.h"

#include <algorithm>
#include <map>
#include <set>

#include "gtest/gtest.h"
#include "rapidcheck.h"

namespace weft {
namespace {

using Pair = std::pair<size_t, size_t>;

Pair Unordered(const Pair& pair) {
  return {std::min(pair.first, pair.second), std::max(pair.first, pair.second)};
}

TEST(RoundsTest, NobodyMeetsAloneOrInAnEmptyFleet) {
  EXPECT_TRUE(RoundPairs(0, 3).empty());
  EXPECT_TRUE(RoundPairs(1, 3).empty());
  EXPECT_EQ(CycleLength(1), 0u);
}

TEST(RoundsTest, ACycleFromAnyRoundPairsEveryoneWithEveryoneExactlyOnce) {
  EXPECT_TRUE(rc::check([] {
    const auto n = *rc::gen::inRange<size_t>(2, 70);
    const uint64_t first = *rc::gen::inRange<uint64_t>(0, 1'000'000);
    std::map<Pair, int> met;
    for (uint64_t round = first; round < first + CycleLength(n); ++round) {
      for (const Pair& pair : RoundPairs(n, round)) ++met[Unordered(pair)];
    }
    RC_ASSERT(met.size() == n * (n - 1) / 2);
    for (const auto& [pair, times] : met) {
      RC_ASSERT(pair.first < pair.second);
      RC_ASSERT(pair.second < n);
      RC_ASSERT(times == 1);
    }
  }));
}

TEST(RoundsTest, PairsOfARoundAreDisjointAndAtMostOneSitsOut) {
  EXPECT_TRUE(rc::check([] {
    const auto n = *rc::gen::inRange<size_t>(2, 300);
    const auto round = *rc::gen::arbitrary<uint64_t>();
    std::set<size_t> seen;
    for (const Pair& pair : RoundPairs(n, round)) {
      RC_ASSERT(seen.insert(pair.first).second);
      RC_ASSERT(seen.insert(pair.second).second);
    }
    RC_ASSERT(seen.size() == n - n % 2);
  }));
}

TEST(RoundsTest, APairSwapsItsRanksFromOneCycleToTheNext) {
  for (size_t n = 2; n < 12; ++n) {
    std::map<Pair, size_t> first_ranks;
    for (uint64_t round = 0; round < CycleLength(n); ++round) {
      for (const Pair& pair : RoundPairs(n, round)) first_ranks[Unordered(pair)] = pair.first;
      for (const Pair& pair : RoundPairs(n, round + CycleLength(n))) {
        EXPECT_NE(first_ranks.at(Unordered(pair)), pair.first) << "n=" << n << " round=" << round;
      }
    }
  }
}

TEST(RoundsTest, GroupsOfARoundCoverAllOnceAndHoldTheirSize) {
  EXPECT_TRUE(rc::check([] {
    const auto n = *rc::gen::inRange<size_t>(2, 100);
    const auto size = *rc::gen::inRange<size_t>(3, 20);
    const auto round = *rc::gen::arbitrary<uint64_t>();
    const auto groups = RoundGroups(n, size, round);
    RC_ASSERT(groups == RoundGroups(n, size, round));
    std::set<size_t> seen;
    for (size_t i = 0; i < groups.size(); ++i) {
      const bool last = i + 1 == groups.size();
      RC_ASSERT(groups[i].size() >= 2u);
      RC_ASSERT((last ? groups[i].size() <= size + 1 : groups[i].size() == size));
      for (const size_t index : groups[i]) RC_ASSERT(index < n && seen.insert(index).second);
    }
    RC_ASSERT(seen.size() == n);
  }));
}

TEST(RoundsTest, GroupsOfOneAndTwoAndOfNobody) {
  EXPECT_EQ(RoundGroups(2, 1, 5), (std::vector<std::vector<size_t>>{{0}, {1}}));
  EXPECT_EQ(RoundGroups(2, 0, 5).size(), 2u);
  EXPECT_EQ(RoundGroups(6, 2, 5).size(), 3u);
  EXPECT_TRUE(RoundGroups(1, 2, 5).empty());
  EXPECT_TRUE(RoundGroups(1, 8, 5).empty());
  EXPECT_TRUE(RoundGroups(0, 1, 5).empty());
}

// Who is in whose group changes from round to round, so that nobody hides behind the same partners.
TEST(RoundsTest, LargerGroupsMixOverTheRounds) {
  constexpr size_t kNodes = 16;
  std::set<Pair> met;
  for (uint64_t round = 1; round <= 32; ++round) {
    for (const auto& group : RoundGroups(kNodes, 4, round)) {
      for (const size_t a : group)
        for (const size_t b : group)
          if (a < b) met.insert({a, b});
    }
  }
  EXPECT_EQ(met.size(), kNodes * (kNodes - 1) / 2);
}

// Other versions of the server must go on with the same rounds.
TEST(RoundsTest, ScatterKeysAreFixedAndDifferByCohort) {
  EXPECT_EQ(ScatterKey("", "node-000"), ScatterKey("", "node-000"));
  EXPECT_NE(ScatterKey("", "node-000"), ScatterKey("a", "node-000"));
  EXPECT_EQ(ScatterKey("a", "node-000"), 12770603369957979589u);
  std::set<uint64_t> keys;
  for (int i = 0; i < 10000; ++i) keys.insert(ScatterKey("a", std::to_string(i)));
  EXPECT_EQ(keys.size(), 10000u);
}

}  // namespace
}  // namespace weft
