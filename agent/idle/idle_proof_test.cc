#include "agent/idle/idle_proof.h"

#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "agent/idle/testing.h"
#include "agent/runner/runner.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class IdleProofTest : public GpuWatchTest {
 protected:
  // With an empty tree for /sys: no NIC of this machine counts.
  IdleProof Proof() { return IdleProof({.root = dir_, .patience = absl::Seconds(20)}, *watch_); }
  void WriteProbe(const std::string& script) {
    const std::string path = dir_ + "/weft-probe-fabric";
    std::ofstream(path) << "#!/bin/sh\n" << script;
    ASSERT_EQ(chmod(path.c_str(), 0700), 0);
  }
  static v1::ProbeRequest Request() {
    v1::ProbeRequest request;
    request.set_run_id("run-1");
    request.mutable_spec()->set_name("fabric_gpu");
    request.mutable_spec()->mutable_fabric()->set_gpu_memory(true);
    request.set_world_size(2);
    request.mutable_deadline()->set_seconds(60);
    return request;
  }
  void SetBytes(const std::string& nic, uint64_t bytes) {
    const std::string folder = dir_ + "/sys/class/net/" + nic + "/statistics";
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/tx_bytes") << bytes;
    std::ofstream(folder + "/rx_bytes") << 0;
  }
};

TEST_F(IdleProofTest, AnIdleNodeMayProbeAndABusyOneIsNamed) {
  Start();
  ASSERT_TRUE(AwaitGood());
  const IdleProof proof = Proof();
  CancelToken cancel;
  EXPECT_TRUE(proof.CheckNow().ok()) << proof.CheckNow();
  const absl::Status idle = IdleProof::Guard(proof).Check(cancel);
  EXPECT_TRUE(idle.ok()) << idle;
  Be("gpus 2\nprocess 1 1 1000\n");
  const absl::Status busy = IdleProof::Guard(proof).Check(cancel);
  EXPECT_TRUE(absl::IsUnavailable(busy)) << busy;
  EXPECT_THAT(std::string(busy.message()), HasSubstr("process 1 computes on GPU 0000:1a:00.0"));
}

TEST_F(IdleProofTest, AnOldReadingDeclinesNothingButAProcessThatStillRuns) {
  Be("gpus 2\nutil 1 100\nprocess 1 1 1000\n");
  Start();
  ASSERT_TRUE(AwaitGood());
  Kinship kin = Kinship::kForeign;
  const IdleProof proof({.root = dir_, .kinship = [&kin](pid_t) { return kin; }}, *watch_);
  EXPECT_TRUE(absl::IsUnavailable(proof.CheckNow()));
  kin = Kinship::kGone;
  EXPECT_TRUE(proof.CheckNow().ok()) << proof.CheckNow();
  CancelToken cancel;
  EXPECT_TRUE(absl::IsUnavailable(IdleProof::Guard(proof).Check(cancel)));
}

TEST_F(IdleProofTest, ABusyNicIsNamed) {
  SetBytes("eth0", 0);
  Start();
  ASSERT_TRUE(AwaitGood());
  const IdleProof proof = Proof();
  IdleProof::Guard guard(proof);
  std::atomic<bool> done{false};
  std::thread busy([&] {
    for (uint64_t bytes = 1; !done; bytes += 100'000'000'000) {
      SetBytes("eth0", bytes);
      usleep(1000);
    }
  });
  CancelToken cancel;
  absl::Status status;
  // A file that is read while it is written is a counter that says nothing: once more then.
  for (int i = 0; i < 20 && status.ok(); ++i) status = guard.Check(cancel);
  done = true;
  busy.join();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("eth0 moves"));
}

TEST_F(IdleProofTest, WithoutNvmlNothingIsProven) {
  GpuWatch::Options options = Options();
  options.environment = {"WEFT_NVML_LIBRARY=/nowhere/libnvidia-ml.so.1"};
  Start(options);
  ASSERT_TRUE(AwaitProblem("NVML is not here"));
  const IdleProof proof = Proof();
  EXPECT_TRUE(absl::IsFailedPrecondition(proof.CheckNow()));
  CancelToken cancel;
  EXPECT_TRUE(absl::IsFailedPrecondition(IdleProof::Guard(proof).Check(cancel)));
}

TEST_F(IdleProofTest, ACancelEndsTheWait) {
  Be("hang Init_v2\n");
  GpuWatch::Options options = Options();
  options.start_patience = absl::Minutes(10);
  Start(options);
  const IdleProof proof = IdleProof({.root = dir_, .patience = absl::Minutes(10)}, *watch_);
  CancelToken cancel;
  cancel.Cancel();
  EXPECT_TRUE(absl::IsCancelled(IdleProof::Guard(proof).Check(cancel)));
}

// What a job is to a probe: the probe is told to end, dies, and the run says for whom and how soon.
TEST_F(IdleProofTest, AJobEndsTheProbeAndTheRunYields) {
  Start();
  ASSERT_TRUE(AwaitGood());
  const IdleProof proof = Proof();
  // It says when it runs, and does not listen to SIGTERM.
  WriteProbe("trap '' TERM; touch " + dir_ + "/runs; while :; do sleep 1; done");
  ProbeRunner runner({.probe_dir = dir_}, reaper_);
  CancelToken cancel;
  std::thread job([&] {
    ASSERT_TRUE(Await([&] { return std::filesystem::exists(dir_ + "/runs"); }));
    Be("gpus 2\nprocess 0 1 1000\n");
  });
  IdleProof::Guard guard(proof);
  ASSERT_TRUE(guard.Check(cancel).ok());
  guard.Begin(cancel);
  v1::Result result = runner.Run(Request(), nullptr, cancel);
  guard.End(&result);
  job.join();
  EXPECT_EQ(result.outcome(), v1::OUTCOME_YIELDED) << result.detail();
  EXPECT_THAT(result.detail(), HasSubstr("yielded to a job: process 1 computes on GPU 0000:19:00.0"));
  EXPECT_TRUE(result.has_yield_latency());
  EXPECT_LT(result.yield_latency().seconds(), 20);
}

TEST_F(IdleProofTest, OurOwnProcessOnTheGpuIsNoJob) {
  Start();
  ASSERT_TRUE(AwaitGood());
  const IdleProof proof = Proof();
  // The probe itself, and a child of it, are on the GPU while it runs.
  WriteProbe("sleep 60 & printf 'gpus 2\\nprocess 0 '$$' 1\\nprocess 1 '$!' 1\\n' > " + dir_ + "/next; mv " +
             dir_ + "/next " + dir_ + "/state; touch " + dir_ + "/runs; while [ ! -e " + dir_ +
             "/end ]; do sleep 0.01; done; exit 3");
  ProbeRunner runner({.probe_dir = dir_}, reaper_);
  CancelToken cancel;
  std::thread watcher([&] {
    ASSERT_TRUE(Await([&] { return std::filesystem::exists(dir_ + "/runs"); }));
    const uint64_t number = watch_->last_reading().number;
    ASSERT_TRUE(watch_->AwaitReading(number + 5, absl::Seconds(30)).has_value());
    std::ofstream(dir_ + "/end") << "";
  });
  IdleProof::Guard guard(proof);
  ASSERT_TRUE(guard.Check(cancel).ok());
  guard.Begin(cancel);
  v1::Result result = runner.Run(Request(), nullptr, cancel);
  guard.End(&result);
  watcher.join();
  EXPECT_EQ(result.outcome(), v1::OUTCOME_FAILED) << result.detail();
  EXPECT_THAT(result.detail(), HasSubstr("exit code 3")) << "it ran to its own end";
}

TEST_F(IdleProofTest, ADriverThatHangsDuringARunEndsIt) {
  Start();
  ASSERT_TRUE(AwaitGood());
  const IdleProof proof = Proof();
  WriteProbe("touch " + dir_ + "/runs; sleep 600");
  ProbeRunner runner({.probe_dir = dir_}, reaper_);
  CancelToken cancel;
  std::thread driver([&] {
    ASSERT_TRUE(Await([&] { return std::filesystem::exists(dir_ + "/runs"); }));
    Be("gpus 2\nhang DeviceGetComputeRunningProcesses_v3\n");
  });
  IdleProof::Guard guard(proof);
  ASSERT_TRUE(guard.Check(cancel).ok());
  guard.Begin(cancel);
  v1::Result result = runner.Run(Request(), nullptr, cancel);
  guard.End(&result);
  driver.join();
  EXPECT_EQ(result.outcome(), v1::OUTCOME_YIELDED) << result.detail();
  EXPECT_THAT(result.detail(), HasSubstr("cannot see whether a job came: the driver hangs at"));
}

TEST_F(IdleProofTest, NumbersTakenBesideAJobAreDropped) {
  Start();
  ASSERT_TRUE(AwaitGood());
  const IdleProof proof = Proof();
  CancelToken cancel;
  IdleProof::Guard guard(proof);
  guard.Begin(cancel);
  Be("gpus 2\nprocess 0 1 1000\n");
  ASSERT_TRUE(Await([&] { return cancel.cancelled(); }));
  v1::Result result;
  result.set_outcome(v1::OUTCOME_OK);
  result.add_measurements()->set_value(1);
  guard.End(&result);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_YIELDED);
  EXPECT_THAT(result.measurements(), IsEmpty());
}

}  // namespace
}  // namespace weft
