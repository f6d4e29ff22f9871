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

}  // namespace
}  // namespace weft
