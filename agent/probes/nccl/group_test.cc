// The real executable, all participants of it, through the agent's runner, against fake GPUs and a fake NCCL
// that really moves bytes between the processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "agent/probes/nccl/testing/group.h"
#include "agent/runner/process_tree.h"
#include "agent/runner/reaper.h"

namespace weft::nccl {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Property;

GroupOptions Group(std::vector<int> gpus) {
  GroupOptions options;
  for (const int count : gpus) options.members.push_back({.gpus = count, .faults = "", .environment = {}});
  options.probe.add_message_size_bytes(64 << 10);
  options.probe.set_iterations(3);
  options.probe.set_warm_up_iterations(1);
  return options;
}

class GroupTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(Reaper::BecomeSubreaper().ok()); }
  void TearDown() override { EXPECT_THAT(OwnChildren(), IsEmpty()); }
};

const v1::Measurement* Find(const v1::Result& result, v1::Metric metric) {
  for (const v1::Measurement& m : result.measurements())
    if (m.metric() == metric) return &m;
  return nullptr;
}

struct CollectiveCase {
  v1::NcclCollective collective;
  double bus_factor_of_16;
};

class CollectiveTest : public GroupTest, public ::testing::WithParamInterface<CollectiveCase> {};
INSTANTIATE_TEST_SUITE_P(All, CollectiveTest,
                         ::testing::Values(CollectiveCase{v1::NCCL_COLLECTIVE_ALL_GATHER, 15.0 / 16},
                                           CollectiveCase{v1::NCCL_COLLECTIVE_ALL_REDUCE, 30.0 / 16},
                                           CollectiveCase{v1::NCCL_COLLECTIVE_REDUCE_SCATTER, 15.0 / 16},
                                           CollectiveCase{v1::NCCL_COLLECTIVE_ALL_TO_ALL, 15.0 / 16},
                                           CollectiveCase{v1::NCCL_COLLECTIVE_BROADCAST, 1},
                                           CollectiveCase{v1::NCCL_COLLECTIVE_SEND_RECV, 1}),
                         [](const auto& test) {
                           return absl::StrCat(v1::NcclCollective_Name(test.param.collective));
                         });

TEST_P(CollectiveTest, TwoNodesOfEightGpusMeasureAndCheckEveryByte) {
  GroupOptions options = Group({8, 8});
  options.probe.set_collective(GetParam().collective);
  const std::vector<v1::Result> results = RunGroup(options);
  for (const v1::Result& r : results) {
    ASSERT_EQ(r.outcome(), v1::OUTCOME_OK) << r.detail() << r.tool_output();
    ASSERT_EQ(r.measurements_size(), 3);
    const v1::Measurement* const bus = Find(r, v1::METRIC_BUS_BANDWIDTH);
    const v1::Measurement* const algorithm = Find(r, v1::METRIC_ALGORITHM_BANDWIDTH);
    const v1::Measurement* const time = Find(r, v1::METRIC_COLLECTIVE_TIME);
    ASSERT_TRUE(bus != nullptr && algorithm != nullptr && time != nullptr);
    ASSERT_EQ(bus->own_rank_seconds_size(), 8);
    const double mean =
        std::accumulate(bus->own_rank_seconds().begin(), bus->own_rank_seconds().end(), 0.0) / 8;
    EXPECT_NEAR(time->value(), mean, mean * 1e-9);
    EXPECT_NEAR(algorithm->value(), (64 << 10) / mean, algorithm->value() * 1e-9);
    EXPECT_NEAR(bus->value(), algorithm->value() * GetParam().bus_factor_of_16, bus->value() * 1e-9);
    EXPECT_EQ(bus->iterations(), 3U);
    EXPECT_EQ(bus->device(), "all");
    EXPECT_EQ(r.nccl().total_ranks(), 16U);
    EXPECT_EQ(r.nccl().own_ranks_size(), 8);
    EXPECT_EQ(r.nccl().own_ranks(7).rank(), 8 * r.rank() + 7);
    EXPECT_GT(r.nccl().checked_bytes(), 0U);
    EXPECT_EQ(r.nccl().checked_bytes(), r.nccl().received_bytes());
  }
  const v1::RankSpread& spread = Find(results[0], v1::METRIC_BUS_BANDWIDTH)->ranks();
  EXPECT_EQ(spread.count(), 16U);
  EXPECT_LE(spread.min_seconds(), spread.mean_seconds());
  EXPECT_LE(spread.mean_seconds(), spread.max_seconds());
  EXPECT_FALSE(Find(results[1], v1::METRIC_BUS_BANDWIDTH)->has_ranks());
}

TEST_F(GroupTest, FourNodesOfOneGpuMeasureInAndOutOfPlaceInEveryType) {
  for (const v1::NcclDataType type :
       {v1::NCCL_DATA_TYPE_FLOAT16, v1::NCCL_DATA_TYPE_BFLOAT16, v1::NCCL_DATA_TYPE_FLOAT64,
        v1::NCCL_DATA_TYPE_INT8, v1::NCCL_DATA_TYPE_INT32}) {
    GroupOptions options = Group({1, 1, 1, 1});
    options.probe.set_collective(type % 2 == 0 ? v1::NCCL_COLLECTIVE_ALL_REDUCE
                                               : v1::NCCL_COLLECTIVE_REDUCE_SCATTER);
    options.probe.set_data_type(type);
    options.probe.set_placement(v1::NCCL_PLACEMENT_BOTH);
    options.probe.set_timing(v1::NCCL_TIMING_HOST);
    for (const v1::Result& r : RunGroup(options)) {
      ASSERT_EQ(r.outcome(), v1::OUTCOME_OK) << r.detail();
      ASSERT_EQ(r.measurements_size(), 6);
      EXPECT_FALSE(r.measurements(0).in_place());
      EXPECT_TRUE(r.measurements(3).in_place());
      EXPECT_EQ(r.nccl().checked_bytes(), r.nccl().received_bytes());
    }
  }
}

TEST_F(GroupTest, AllGatherAndBroadcastAreCheckedInPlaceToo) {
  for (const v1::NcclCollective collective :
       {v1::NCCL_COLLECTIVE_ALL_GATHER, v1::NCCL_COLLECTIVE_BROADCAST}) {
    GroupOptions options = Group({2, 1});
    options.probe.set_collective(collective);
    options.probe.set_placement(v1::NCCL_PLACEMENT_IN_PLACE);
    for (const v1::Result& r : RunGroup(options)) ASSERT_EQ(r.outcome(), v1::OUTCOME_OK) << r.detail();
  }
}

TEST_F(GroupTest, NodesMayHaveUnequalNumbersOfGpus) {
  const std::vector<v1::Result> results = RunGroup(Group({1, 3, 2}));
  const uint32_t first[] = {0, 1, 4};
  for (const v1::Result& r : results) {
    ASSERT_EQ(r.outcome(), v1::OUTCOME_OK) << r.detail();
    EXPECT_EQ(r.nccl().own_ranks(0).rank(), first[r.rank()]);
    EXPECT_EQ(r.nccl().total_ranks(), 6U);
  }
}

TEST_F(GroupTest, OneNodeAloneMeasuresItsGpusWithoutRendezvous) {
  const std::vector<v1::Result> results = RunGroup(Group({4}));
  ASSERT_EQ(results[0].outcome(), v1::OUTCOME_OK) << results[0].detail();
  EXPECT_EQ(results[0].measurements(0).ranks().count(), 4U);
}

TEST_F(GroupTest, OneGpuInAllIsRefused) {
  const std::vector<v1::Result> results = RunGroup(Group({1}));
  EXPECT_EQ(results[0].outcome(), v1::OUTCOME_REFUSED);
  EXPECT_THAT(results[0].detail(), HasSubstr("two GPUs"));
}

TEST_F(GroupTest, RailsAreMeasuredEachByItself) {
  GroupOptions options = Group({4, 4});
  options.probe.set_rail_split(true);
  const std::vector<v1::Result> results = RunGroup(options);
  for (const v1::Result& r : results) {
    ASSERT_EQ(r.outcome(), v1::OUTCOME_OK) << r.detail();
    ASSERT_EQ(r.measurements_size(), 4);
    for (int rail = 0; rail < 4; ++rail) {
      EXPECT_EQ(r.measurements(rail).device(), absl::StrCat("rail", rail));
      EXPECT_EQ(r.measurements(rail).own_rank_seconds_size(), 1);
    }
  }
  for (int rail = 0; rail < 4; ++rail) {
    const v1::RankSpread& spread = results[0].measurements(rail).ranks();
    EXPECT_EQ(spread.count(), 2U);
    EXPECT_THAT(spread.slowest_rank(), AnyOf(rail, rail + 4));
  }
}

TEST_F(GroupTest, RailsOfUnequalNodesAreRefused) {
  GroupOptions options = Group({2, 1});
  options.probe.set_rail_split(true);
  for (const v1::Result& r : RunGroup(options)) {
    EXPECT_EQ(r.outcome(), v1::OUTCOME_REFUSED);
    EXPECT_THAT(r.detail(), HasSubstr("same number of GPUs"));
  }
}

TEST_F(GroupTest, SlowestRankIsNamed) {
  GroupOptions options = Group({2, 2});
  // From the last timed collective on: warm-up, one to come into step, three timed.
  options.faults = "late:2:4:100";
  const std::vector<v1::Result> results = RunGroup(options);
  ASSERT_EQ(results[0].outcome(), v1::OUTCOME_OK) << results[0].detail();
  const v1::RankSpread& spread = results[0].measurements(0).ranks();
  EXPECT_EQ(spread.slowest_rank(), 2U);
  EXPECT_EQ(spread.slowest_participant(), 1U);
  EXPECT_GE(3 * spread.max_seconds(), 0.1);
}

TEST_F(GroupTest, StackSettingsAndLogAreReported) {
  GroupOptions options = Group({1, 1});
  for (Member& member : options.members)
    member.environment = {"NCCL_SOCKET_IFNAME=lo", "NCCL_HOSTID=x", "NCCL_CONF_FILE=/nonexistent"};
  for (const v1::Result& r : RunGroup(options)) {
    ASSERT_EQ(r.outcome(), v1::OUTCOME_OK) << r.detail();
    EXPECT_EQ(r.nccl().version(), "2.28.3");
    EXPECT_THAT(r.nccl().library_path(), HasSubstr("fake_gpu/nccl/libnccl.so.2"));
    EXPECT_EQ(r.nccl().cuda_version(), "13.0");
    EXPECT_THAT(r.stack_fingerprint(),
                AllOf(HasSubstr("nccl/2.28.3 cuda/13.0"), HasSubstr("NCCL_SOCKET_IFNAME=lo"),
                      Not(HasSubstr("NCCL_HOSTID"))));
    EXPECT_THAT(r.nccl().log(), AllOf(HasSubstr("Using network Socket"), HasSubstr("use ring PXN 0 GDR 0")));
    EXPECT_THAT(r.nccl().settings(), Contains(AllOf(Property(&v1::NcclSetting::name, "NCCL_RAS_ENABLE"),
                                                    Property(&v1::NcclSetting::value, "0"),
                                                    Property(&v1::NcclSetting::source, "probe"))));
    EXPECT_THAT(r.nccl().settings(), Contains(AllOf(Property(&v1::NcclSetting::name, "NCCL_HOSTID"),
                                                    Property(&v1::NcclSetting::source, "environment"))));
  }
}

TEST_F(GroupTest, RequiredNetworkThatIsMissingFailsInsteadOfFallingBack) {
  GroupOptions options = Group({1, 1});
  options.probe.set_require_network("IB");
  for (const v1::Result& r : RunGroup(options)) {
    EXPECT_EQ(r.outcome(), v1::OUTCOME_FAILED);
    EXPECT_THAT(r.phase(), "connect");
    EXPECT_THAT(r.detail(), HasSubstr("communicators"));
  }
}

TEST_F(GroupTest, OldLibraryMeasuresAndSaysWhatItCannotDo) {
  GroupOptions options = Group({2, 2});
  options.nccl_variant = "_old";
  for (const v1::Result& r : RunGroup(options)) {
    ASSERT_EQ(r.outcome(), v1::OUTCOME_OK) << r.detail();
    EXPECT_EQ(r.nccl().version(), "2.12.12");
    EXPECT_THAT(r.nccl().limits(), Contains(HasSubstr("only blocking")));
  }
}

// What cannot run at all.

TEST_F(GroupTest, LibraryWithoutANeededFunctionIsRefusedByName) {
  GroupOptions options = Group({1, 1});
  options.nccl_variant = "_broken";
  const v1::Result r = RunGroup(options)[0];
  EXPECT_EQ(r.outcome(), v1::OUTCOME_REFUSED);
  EXPECT_THAT(r.detail(), HasSubstr("ncclCommAbort"));
}

TEST_F(GroupTest, MissingLibraryMissingGpuAndTooOldALibraryAreRefused) {
  for (const char* setting :
       {"WEFT_NCCL_LIBRARY=/nonexistent/libnccl.so.2", "WEFT_CUDA_LIBRARY=/nonexistent/libcuda.so.1",
        "WEFT_FAKE_GPUS=0", "WEFT_FAKE_NCCL_VERSION=21104"}) {
    GroupOptions options = Group({1, 1});
    options.members[0].environment = {setting};
    const v1::Result r = RunGroup(options)[0];
    EXPECT_EQ(r.outcome(), v1::OUTCOME_REFUSED) << setting << ": " << r.detail();
    EXPECT_EQ(r.phase(), "open");
    EXPECT_THAT(r.detail(), Not(IsEmpty()));
  }
}

TEST_F(GroupTest, TooLittleGpuMemoryFailsEverywhereAndNamesTheGpu) {
  GroupOptions options = Group({1, 1});
  options.members[1].environment = {"WEFT_FAKE_GPU_BYTES=1024"};
  for (const v1::Result& r : RunGroup(options)) {
    EXPECT_EQ(r.outcome(), v1::OUTCOME_FAILED);
    EXPECT_THAT(r.detail(),
                AllOf(HasSubstr("participant 1"), HasSubstr("out of memory"), HasSubstr("0000:1a:00.0")));
  }
}

TEST_F(GroupTest, DifferentVersionsAreToldApartBeforeNcclStarts) {
  GroupOptions options = Group({1, 1, 1});
  options.members[2].environment = {"WEFT_FAKE_NCCL_VERSION=22105"};
  for (const v1::Result& r : RunGroup(options)) {
    EXPECT_EQ(r.outcome(), v1::OUTCOME_FAILED);
    EXPECT_EQ(r.phase(), "rendezvous");
    EXPECT_THAT(r.detail(), AllOf(HasSubstr("participant 2 has NCCL 2.21.5"), HasSubstr("2.28.3")));
  }
}

// What hangs, ends or goes wrong on the way. Deadlines are short where they are what is waited for; on a busy
// host a participant may not have come that far by then, so those runs are tried once more with long ones.

// Runs with a size deadline of a few seconds, twice that for init and thrice for the whole; again with longer
// ones when participant 0 did not come to `phase`.
std::vector<v1::Result> RunUntil(const std::string& phase, GroupOptions options) {
  std::vector<v1::Result> results;
  for (const int seconds : {4, 20}) {
    options.probe.mutable_size_deadline()->set_seconds(seconds);
    options.probe.mutable_init_deadline()->set_seconds(2 * seconds);
    options.deadline = absl::Seconds(3 * seconds);
    results = RunGroup(options);
    const bool reached = std::any_of(results.begin(), results.end(),
                                     [&](const v1::Result& r) { return absl::StartsWith(r.phase(), phase); });
    if (reached) break;
  }
  return results;
}

// By its own means, not killed by its agent.
void ExpectOwnEnd(const v1::Result& r) {
  EXPECT_THAT(r.detail(), Not(HasSubstr("gave no result in time"))) << "participant " << r.rank();
}

TEST_F(GroupTest, RankThatHangsInTheMakingOfCommunicatorsTimesOutEverywhere) {
  GroupOptions options = Group({2, 2});
  options.faults = "hang_init:3";
  for (const v1::Result& r : RunUntil("connect", options)) {
    EXPECT_EQ(r.outcome(), v1::OUTCOME_TIMED_OUT) << r.detail();
    EXPECT_EQ(r.phase(), "connect");
    EXPECT_THAT(r.measurements(), IsEmpty());
    ExpectOwnEnd(r);
  }
}

TEST_F(GroupTest, RankThatHangsInACollectiveTimesOutEverywhereInThatPhase) {
  GroupOptions options = Group({2, 2});
  options.faults = "hang:1:2";
  for (const v1::Result& r : RunUntil("timed", options)) {
    EXPECT_EQ(r.outcome(), v1::OUTCOME_TIMED_OUT) << r.detail();
    EXPECT_EQ(r.phase(), "timed 65536 B");
    EXPECT_THAT(r.detail(), HasSubstr("did not end in time"));
    ExpectOwnEnd(r);
  }
}

class StoppedTest : public GroupTest, public ::testing::WithParamInterface<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Participants, StoppedTest, ::testing::Values(0U, 2U));

TEST_P(StoppedTest, StoppedParticipantIsNamedByAllOthersInTime) {
  GroupOptions options = Group({1, 1, 1});
  options.faults = absl::StrCat("stop:", GetParam(), ":2");
  for (const v1::Result& r : RunUntil("timed", options)) {
    EXPECT_EQ(r.outcome(), v1::OUTCOME_TIMED_OUT) << r.detail();
    // The agent of the stopped one kills it.
    if (r.rank() == GetParam()) continue;
    EXPECT_THAT(r.missing_ranks(), ElementsAre(GetParam())) << r.detail();
    EXPECT_THAT(r.detail(), HasSubstr(absl::StrCat("participant ", GetParam()))) << r.detail();
    ExpectOwnEnd(r);
  }
}

TEST_P(StoppedTest, KilledParticipantIsNamedByAllOthersAtOnce) {
  GroupOptions options = Group({1, 1, 1});
  options.faults = absl::StrCat("die:", GetParam(), ":2");
  for (const v1::Result& r : RunGroup(options)) {
    EXPECT_EQ(r.outcome(), v1::OUTCOME_FAILED) << r.detail();
    if (r.rank() == GetParam()) continue;
    EXPECT_THAT(r.missing_ranks(), ElementsAre(GetParam())) << r.detail();
    EXPECT_THAT(r.detail(), HasSubstr("ended")) << r.detail();
    ExpectOwnEnd(r);
  }
}

TEST_F(GroupTest, ParticipantThatNeverComesIsNamed) {
  GroupOptions options = Group({1, 1});
  options.members[1].environment = {"WEFT_FAKE_GPU_FAULT=hang_init"};
  const std::vector<v1::Result> results = RunUntil("rendezvous", options);
  EXPECT_EQ(results[0].outcome(), v1::OUTCOME_PARTNER_MISSING) << results[0].detail();
  EXPECT_THAT(results[0].missing_ranks(), ElementsAre(1U));
  EXPECT_EQ(results[0].phase(), "rendezvous");
  EXPECT_EQ(results[1].outcome(), v1::OUTCOME_TIMED_OUT);
  EXPECT_EQ(results[1].phase(), "open");
  ExpectOwnEnd(results[1]);
}

TEST_F(GroupTest, AsynchronousErrorFailsEverywhereWithNcclsWords) {
  GroupOptions options = Group({2, 2});
  options.faults = "error:3:2";
  for (const v1::Result& r : RunGroup(options)) {
    EXPECT_EQ(r.outcome(), v1::OUTCOME_FAILED);
    EXPECT_THAT(r.detail(), AllOf(HasSubstr("participant 1"), HasSubstr("remote process exited")))
        << r.detail();
  }
}

TEST_F(GroupTest, WrongDataIsFoundAndNamesRankAndByte) {
  GroupOptions options = Group({2, 2});
  options.faults = "wrong:2:0";
  for (const v1::Result& r : RunGroup(options)) {
    EXPECT_EQ(r.outcome(), v1::OUTCOME_FAILED);
    EXPECT_EQ(r.phase(), "check 65536 B");
    EXPECT_THAT(r.detail(), AllOf(HasSubstr("wrong data at rank 2"), HasSubstr("byte 3 of 65536")))
        << r.detail();
    EXPECT_THAT(r.measurements(), IsEmpty());
  }
}

TEST_F(GroupTest, AbortThatTakesItsTimeIsWaitedFor) {
  GroupOptions options = Group({2, 2});
  options.faults = "hang:0:2,slow_abort:1:0:1000";
  for (const v1::Result& r : RunUntil("timed", options)) {
    EXPECT_EQ(r.outcome(), v1::OUTCOME_TIMED_OUT) << r.detail();
    EXPECT_THAT(r.detail(), Not(HasSubstr("hung"))) << r.detail();
  }
}

TEST_F(GroupTest, AbortThatHangsEndsWithTheProcessAndIsSaid) {
  GroupOptions options = Group({2, 2});
  options.faults = "hang:0:2,slow_abort:1:0:100000";
  const std::vector<v1::Result> results = RunUntil("timed", options);
  EXPECT_EQ(results[0].outcome(), v1::OUTCOME_TIMED_OUT) << results[0].detail();
  EXPECT_THAT(results[0].detail(), HasSubstr("hung in the abort")) << results[0].detail();
  EXPECT_THAT(results[1].detail(), Not(HasSubstr("hung in the abort"))) << results[1].detail();
}

}  // namespace
}  // namespace weft::nccl
