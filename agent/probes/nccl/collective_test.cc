#include "agent/probes/nccl/collective.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "agent/probes/nccl/parameters.h"
#include "agent/probes/process/ticks.h"

namespace weft::nccl {
namespace {

constexpr uint64_t kGiB = 1ULL << 30;

TEST(BusFactor, IsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(BusFactor(v1::NCCL_COLLECTIVE_ALL_REDUCE, 8), 1.75);
  EXPECT_DOUBLE_EQ(BusFactor(v1::NCCL_COLLECTIVE_ALL_GATHER, 8), 0.875);
  EXPECT_DOUBLE_EQ(BusFactor(v1::NCCL_COLLECTIVE_REDUCE_SCATTER, 4), 0.75);
  EXPECT_DOUBLE_EQ(BusFactor(v1::NCCL_COLLECTIVE_ALL_TO_ALL, 2), 0.5);
  EXPECT_DOUBLE_EQ(BusFactor(v1::NCCL_COLLECTIVE_BROADCAST, 8), 1);
  EXPECT_DOUBLE_EQ(BusFactor(v1::NCCL_COLLECTIVE_SEND_RECV, 8), 1);
}

Layout Of(v1::NcclCollective collective, uint64_t bytes, uint32_t ranks) {
  const auto layout = LayOut(collective, v1::NCCL_DATA_TYPE_FLOAT32, bytes, ranks);
  EXPECT_TRUE(layout.ok()) << layout.status();
  return layout.value_or(Layout());
}

TEST(LayOut, GivesTheBuffersOfNcclTests) {
  const Layout gather = Of(v1::NCCL_COLLECTIVE_ALL_GATHER, kGiB, 8);
  EXPECT_EQ(gather.send_bytes(), kGiB / 8);
  EXPECT_EQ(gather.receive_bytes(), kGiB);
  EXPECT_EQ(gather.base_bytes, kGiB);
  EXPECT_EQ(gather.count, kGiB / 8 / 4);
  const Layout scatter = Of(v1::NCCL_COLLECTIVE_REDUCE_SCATTER, kGiB, 8);
  EXPECT_EQ(scatter.send_bytes(), kGiB);
  EXPECT_EQ(scatter.receive_bytes(), kGiB / 8);
  const Layout all_to_all = Of(v1::NCCL_COLLECTIVE_ALL_TO_ALL, kGiB, 8);
  EXPECT_EQ(all_to_all.send_bytes(), kGiB);
  EXPECT_EQ(all_to_all.receive_bytes(), kGiB);
  const Layout reduce = Of(v1::NCCL_COLLECTIVE_ALL_REDUCE, kGiB, 8);
  EXPECT_EQ(reduce.send_bytes(), kGiB);
  EXPECT_EQ(reduce.base_bytes, kGiB);
}

TEST(LayOut, SizeThatHasNoElementForEachRankIsRefused) {
  EXPECT_FALSE(LayOut(v1::NCCL_COLLECTIVE_ALL_GATHER, v1::NCCL_DATA_TYPE_FLOAT64, 8, 2).ok());
  EXPECT_TRUE(LayOut(v1::NCCL_COLLECTIVE_ALL_REDUCE, v1::NCCL_DATA_TYPE_FLOAT64, 8, 2).ok());
}

RC_GTEST_PROP(LayOut, NeverExceedsTheSizeAndHoldsWholeElements, ()) {
  const auto collective = static_cast<v1::NcclCollective>(*rc::gen::inRange(1, 7));
  const auto type = static_cast<v1::NcclDataType>(*rc::gen::inRange(1, 7));
  const auto bytes = *rc::gen::inRange<uint64_t>(8, 1 << 24);
  const auto ranks = *rc::gen::inRange<uint32_t>(1, 65);
  const auto layout = LayOut(collective, type, bytes, ranks);
  if (!layout.ok()) return;
  RC_ASSERT(layout->send_bytes() <= bytes);
  RC_ASSERT(layout->receive_bytes() <= bytes);
  RC_ASSERT(layout->base_bytes <= bytes);
  RC_ASSERT(layout->count * BytesPerElement(type) == layout->unit_bytes);
  RC_ASSERT(layout->unit_bytes < 16 || layout->unit_bytes % 16 == 0);
}

TEST(Parameters, DefaultsAreOneGiBOfAllGatherOutOfPlaceChecked) {
  const Parameters p = MakeParameters(v1::NcclProbe());
  EXPECT_EQ(p.collective, v1::NCCL_COLLECTIVE_ALL_GATHER);
  ASSERT_EQ(p.steps.size(), 4U);
  EXPECT_EQ(StepName(p.steps[0]), "connect");
  EXPECT_EQ(StepName(p.steps[1]), "warm_up 1073741824 B");
  EXPECT_EQ(p.steps[1].iterations, 5U);
  EXPECT_EQ(p.steps[2].iterations, 20U);
  EXPECT_EQ(p.steps[3].kind, StepKind::kCheck);
  EXPECT_EQ(p.init_ticks, 60 * kSecond);
}

TEST(Parameters, DigestTellsWhateverWouldBeMeasuredDifferently) {
  const uint32_t base = MakeParameters(v1::NcclProbe()).digest;
  v1::NcclProbe other;
  other.set_collective(v1::NCCL_COLLECTIVE_ALL_GATHER);
  EXPECT_EQ(MakeParameters(other).digest, base) << "the default said aloud is the default";
  const auto differs = [&](auto change) {
    v1::NcclProbe probe;
    change(probe);
    return MakeParameters(probe).digest != base;
  };
  EXPECT_TRUE(differs([](v1::NcclProbe& p) { p.set_collective(v1::NCCL_COLLECTIVE_ALL_REDUCE); }));
  EXPECT_TRUE(differs([](v1::NcclProbe& p) { p.add_message_size_bytes(8); }));
  EXPECT_TRUE(differs([](v1::NcclProbe& p) { p.set_data_type(v1::NCCL_DATA_TYPE_INT8); }));
  EXPECT_TRUE(differs([](v1::NcclProbe& p) { p.set_iterations(3); }));
  EXPECT_TRUE(differs([](v1::NcclProbe& p) { p.set_timing(v1::NCCL_TIMING_HOST); }));
  EXPECT_TRUE(differs([](v1::NcclProbe& p) { p.set_placement(v1::NCCL_PLACEMENT_BOTH); }));
  EXPECT_TRUE(differs([](v1::NcclProbe& p) { p.set_rail_split(true); }));
  EXPECT_TRUE(differs([](v1::NcclProbe& p) { p.set_skip_data_check(true); }));
  EXPECT_TRUE(differs([](v1::NcclProbe& p) { p.set_require_network("IB"); }));
}

}  // namespace
}  // namespace weft::nccl
