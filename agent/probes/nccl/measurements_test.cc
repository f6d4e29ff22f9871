#include "agent/probes/nccl/measurements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::nccl {
namespace {

using ::testing::ElementsAre;

// Participants with two and one GPU; this is the first.
const Ranks kRanks = {.gpus = {2, 1}, .participant = 0};

v1::NcclProbe Probe() {
  v1::NcclProbe probe;
  probe.set_collective(v1::NCCL_COLLECTIVE_ALL_REDUCE);
  probe.add_message_size_bytes(3'000'000);
  return probe;
}

TEST(Measurements, FollowFromOwnTimesAndTheSpreadFromAll) {
  const StepTimes times = {.iterations = {0, 5, 10, 1},
                           .own_ns = {{}, {1, 1}, {20'000'000, 40'000'000}, {1, 1}},
                           .all_ns = {{}, {1, 1, 1}, {20'000'000, 40'000'000, 90'000'000}, {1, 1, 1}}};
  const auto m = MakeMeasurements(MakeParameters(Probe()), kRanks, times);
  ASSERT_EQ(m.size(), 3U);
  // 3 ms each, 3 MB: 1 GB/s; of three ranks 4/3 of it on the bus.
  EXPECT_EQ(m[0].metric(), v1::METRIC_BUS_BANDWIDTH);
  EXPECT_NEAR(m[0].value(), 4e9 / 3, 1);
  EXPECT_THAT(m[0].own_rank_seconds(), ElementsAre(0.002, 0.004));
  EXPECT_EQ(m[0].moved_bytes(), 30'000'000U);
  EXPECT_NEAR(m[0].elapsed_seconds(), 0.03, 1e-12);
  EXPECT_EQ(m[0].ranks().count(), 3U);
  EXPECT_DOUBLE_EQ(m[0].ranks().min_seconds(), 0.002);
  EXPECT_DOUBLE_EQ(m[0].ranks().mean_seconds(), 0.005);
  EXPECT_DOUBLE_EQ(m[0].ranks().max_seconds(), 0.009);
  EXPECT_EQ(m[0].ranks().slowest_rank(), 2U);
  EXPECT_EQ(m[0].ranks().slowest_participant(), 1U);
  EXPECT_EQ(m[1].metric(), v1::METRIC_ALGORITHM_BANDWIDTH);
  EXPECT_NEAR(m[1].value(), 1e9, 1);
  EXPECT_EQ(m[2].metric(), v1::METRIC_COLLECTIVE_TIME);
  EXPECT_NEAR(m[2].value(), 0.003, 1e-12);
}

TEST(Measurements, RailsHaveTheirOwnRanksAndNumbers) {
  v1::NcclProbe probe = Probe();
  probe.set_rail_split(true);
  probe.set_skip_data_check(true);
  const Ranks ranks = {.gpus = {2, 2}, .participant = 0};
  const StepTimes times = {.iterations = {0, 1, 1},
                           .own_ns = {{}, {1, 1}, {1'000'000, 2'000'000}},
                           .all_ns = {{}, {1, 1, 1, 1}, {1'000'000, 2'000'000, 3'000'000, 1'000'000}}};
  const auto m = MakeMeasurements(MakeParameters(probe), ranks, times);
  ASSERT_EQ(m.size(), 2U);
  EXPECT_EQ(m[0].device(), "rail0");
  EXPECT_NEAR(m[0].value(), 3e9, 1);  // two ranks: factor 1
  EXPECT_EQ(m[0].ranks().slowest_rank(), 2U);
  EXPECT_EQ(m[0].ranks().slowest_participant(), 1U);
  EXPECT_EQ(m[1].device(), "rail1");
  EXPECT_NEAR(m[1].value(), 1.5e9, 1);
  EXPECT_EQ(m[1].ranks().slowest_rank(), 1U);
  EXPECT_EQ(m[1].ranks().slowest_participant(), 0U);
}

TEST(VersionText, IsAsNcclSaysIt) {
  EXPECT_EQ(VersionText(22803), "2.28.3");
  EXPECT_EQ(VersionText(21212), "2.12.12");
  EXPECT_EQ(VersionText(2804), "2.8.4");
}

}  // namespace
}  // namespace weft::nccl
