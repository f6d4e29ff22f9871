// The real executable through the agent's runner, against fake GPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "agent/probes/gpu_copy/host_memory.h"
#include "agent/runner/cancel_token.h"
#include "agent/runner/process_tree.h"
#include "agent/runner/runner.h"

namespace weft::gpu_copy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::filesystem::path BinDir() {
  const char* const dir = std::getenv("WEFT_BIN_DIR");
  return dir ? std::filesystem::path(dir)
             : std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "bin";
}

class GpuCopyTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(Reaper::BecomeSubreaper().ok()); }
  void SetUp() override {
    request_.mutable_spec()->set_name("copies");
    request_.mutable_spec()->mutable_gpu_copy()->set_bytes(64 << 10);
    request_.mutable_spec()->mutable_gpu_copy()->set_iterations(3);
    request_.set_world_size(1);
    request_.mutable_deadline()->set_seconds(30);
  }
  void TearDown() override { EXPECT_THAT(OwnChildren(), IsEmpty()); }
  v1::Result Run(std::vector<std::string> environment) {
    const auto cuda = BinDir().parent_path() / "tests" / "fake_gpu" / "libcuda.so.1";
    environment.push_back(absl::StrCat("WEFT_CUDA_LIBRARY=", cuda.string()));
    ProbeRunner runner({.probe_dir = BinDir().string(), .environment = environment}, reaper_);
    return runner.Run(request_, nullptr, cancel_);
  }
  v1::GpuCopyProbe& probe() { return *request_.mutable_spec()->mutable_gpu_copy(); }

  Reaper reaper_;
  CancelToken cancel_;
  v1::ProbeRequest request_;
};

TEST_F(GpuCopyTest, EveryGpuEveryNodeAndEveryOrderedPairIsMeasured) {
  const v1::Result r = Run({"WEFT_FAKE_GPUS=3"});
  ASSERT_EQ(r.outcome(), v1::OUTCOME_OK) << r.detail();
  std::set<std::string> pairs;
  size_t with_host = 0;
  for (const v1::Measurement& m : r.measurements()) {
    EXPECT_EQ(m.metric(), v1::METRIC_COPY_BANDWIDTH);
    EXPECT_EQ(m.moved_bytes(), 3U * (64 << 10));
    EXPECT_NEAR(m.value() * m.elapsed_seconds(), 3.0 * (64 << 10), 1);
    EXPECT_LE(m.device().size(), 64U);
    pairs.insert(m.device());
    if (absl::StrContains(m.device(), "numa") || absl::StrContains(m.device(), "host")) ++with_host;
  }
  EXPECT_EQ(pairs.size(), static_cast<size_t>(r.measurements_size()));
  for (const char* pair :
       {"0000:1a:00.0>0000:1a:00.0", "0000:1a:00.0>0000:1c:00.0", "0000:1c:00.0>0000:1a:00.0"})
    EXPECT_TRUE(pairs.contains(pair)) << pair;
  EXPECT_EQ(pairs.size() - with_host, 9U);
  EXPECT_GE(with_host, 6U);
  EXPECT_EQ(with_host % 6, 0U);
  EXPECT_THAT(r.stack_fingerprint(), HasSubstr("cuda/13.0"));
}

TEST_F(GpuCopyTest, OneGpuIsMeasuredWithoutPairs) {
  probe().set_skip_host(true);
  const v1::Result r = Run({});
  ASSERT_EQ(r.outcome(), v1::OUTCOME_OK) << r.detail();
  ASSERT_EQ(r.measurements_size(), 1);
  EXPECT_EQ(r.measurements(0).device(), "0000:1a:00.0>0000:1a:00.0");
}

TEST_F(GpuCopyTest, PairsOfOneGpuAreRefused) {
  probe().set_skip_host(true);
  probe().set_skip_device_to_device(true);
  EXPECT_EQ(Run({}).outcome(), v1::OUTCOME_REFUSED);
}

TEST_F(GpuCopyTest, NoGpuAndNoDriverAreRefused) {
  for (const char* setting : {"WEFT_FAKE_GPUS=0", "WEFT_CUDA_LIBRARY=/nonexistent/libcuda.so.1"}) {
    const v1::Result r = Run({setting});
    EXPECT_EQ(r.outcome(), v1::OUTCOME_REFUSED) << r.detail();
    EXPECT_EQ(r.phase(), "open");
  }
}

TEST_F(GpuCopyTest, CopyThatBringsWrongDataFailsByName) {
  const v1::Result r = Run({"WEFT_FAKE_GPU_FAULT=wrong_copy"});
  EXPECT_EQ(r.outcome(), v1::OUTCOME_FAILED);
  EXPECT_THAT(r.detail(), HasSubstr("0000:1a:00.0>0000:1a:00.0 brought wrong data"));
}

TEST_F(GpuCopyTest, HungDriverTimesOutWithTheCopyInTheDetail) {
  request_.mutable_deadline()->set_seconds(3);
  v1::Result r = Run({"WEFT_FAKE_GPU_FAULT=hang_init"});
  EXPECT_EQ(r.outcome(), v1::OUTCOME_TIMED_OUT);
  EXPECT_EQ(r.phase(), "open");
  r = Run({"WEFT_FAKE_GPU_FAULT=hang_copy"});
  EXPECT_EQ(r.outcome(), v1::OUTCOME_TIMED_OUT);
  EXPECT_EQ(r.phase(), "copy 0000:1a:00.0>0000:1a:00.0");
}

TEST(NodeList, RangesAndSinglesAreReadAndNonsenseIsNothing) {
  EXPECT_THAT(ParseNodeList("0-2,5\n"), ElementsAre(0, 1, 2, 5));
  EXPECT_THAT(ParseNodeList("0"), ElementsAre(0));
  for (const char* nonsense : {"", "x", "2-1", "0-1-2", "-1", "0-99999"})
    EXPECT_THAT(ParseNodeList(nonsense), IsEmpty()) << nonsense;
}

TEST(HostMemory, LiesOnTheNodeAskedForOrSaysThatItMayNotChoose) {
  for (const int node : NodesWithMemory()) {
    const auto memory = HostMemory::Allocate(1 << 20, node);
    EXPECT_TRUE(memory.ok() || absl::IsPermissionDenied(memory.status())) << memory.status();
  }
  EXPECT_TRUE(HostMemory::Allocate(1 << 20, std::nullopt).ok());
}

}  // namespace
}  // namespace weft::gpu_copy
