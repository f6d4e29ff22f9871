#include "agent/idle/idle.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

// Processes from 1,000 are ours, from 2,000 foreign, from 3,000 out of sight.
Kinship KinshipOfTest(pid_t pid) {
  return pid < 2000 ? Kinship::kOwn : pid < 3000 ? Kinship::kForeign : Kinship::kGone;
}

v1::GpuActivity Idle(int gpus = 2) {
  v1::GpuActivity activity;
  for (int i = 0; i < gpus; ++i) {
    v1::GpuUse* use = activity.add_gpus();
    use->set_pci_address("0000:1" + std::to_string(i) + ":00.0");
    use->set_processes_known(true);
    use->set_utilization_percent(0);
    use->set_memory_used_bytes(0);
  }
  return activity;
}

v1::GpuActivity WithProcess(uint32_t pid) {
  v1::GpuActivity activity = Idle();
  activity.mutable_gpus(1)->add_processes()->set_pid(pid);
  activity.mutable_gpus(1)->mutable_processes(0)->set_memory_bytes(12ull << 30);
  return activity;
}

absl::Status Check(const v1::GpuActivity& activity) { return CheckGpusIdle(activity, {}, KinshipOfTest); }

TEST(IdleTest, OnlyANodeWithoutProcessUseAndMemoryIsIdle) {
  EXPECT_TRUE(Check(Idle()).ok());
  EXPECT_TRUE(Check(WithProcess(1001)).ok()) << "our own process is no job";
  const absl::Status job = Check(WithProcess(2001));
  EXPECT_TRUE(absl::IsUnavailable(job));
  EXPECT_EQ(job.message(), "process 2001 computes on GPU 0000:11:00.0 (12 GiB)");
  EXPECT_TRUE(absl::IsUnavailable(Check(WithProcess(3001)))) << "a process of another namespace is a job";

  v1::GpuActivity used = Idle();
  used.mutable_gpus(1)->set_utilization_percent(40);
  EXPECT_THAT(std::string(Check(used).message()), HasSubstr("is used to 40%, limit 5%"));
  v1::GpuActivity full = Idle();
  full.mutable_gpus(0)->set_memory_used_bytes(40ull << 30);
  EXPECT_TRUE(absl::IsUnavailable(Check(full)));
  EXPECT_THAT(std::string(Check(full).message()),
              HasSubstr("40 GiB of GPU 0000:10:00.0 are in use by nobody"));
}

TEST(IdleTest, WhatTheDriverDoesNotSayIsNotIdle) {
  v1::GpuActivity silent = Idle();
  silent.mutable_gpus(1)->set_processes_known(false);
  EXPECT_TRUE(absl::IsFailedPrecondition(Check(silent)));
  EXPECT_TRUE(absl::IsFailedPrecondition(Check(Idle(0))));
  // That one GPU is silent does not hide that another is in use.
  silent.mutable_gpus(0)->add_processes()->set_pid(2001);
  EXPECT_TRUE(absl::IsUnavailable(Check(silent)));
}

TEST(IdleTest, AGpuWithoutUtilisationOrMemoryIsJudgedByItsProcesses) {
  v1::GpuActivity activity = Idle();
  activity.mutable_gpus(0)->clear_utilization_percent();
  activity.mutable_gpus(0)->clear_memory_used_bytes();
  EXPECT_TRUE(Check(activity).ok());
}

TEST(IdleTest, NicsAreIdleBelowANumberOrAShareOfTheirRate) {
  const std::map<std::string, uint64_t> rates = {{"mlx5_0", 50'000'000'000}};
  const auto check = [&](const char* nic, uint64_t bytes) {
    return CheckNicsIdle({{nic, true, 0, bytes, false}}, absl::Milliseconds(500), rates, {});
  };
  EXPECT_TRUE(check("mlx5_0", 490'000'000).ok()) << "2% of 400 Gb/s for half a second are 500 MB";
  EXPECT_TRUE(absl::IsUnavailable(check("mlx5_0", 510'000'000)));
  EXPECT_TRUE(check("eth0", 24'000'000).ok());
  EXPECT_EQ(check("eth0", 100'000'000).message(), "eth0 moves 200 MB/s, limit 50.0 MB/s");
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckNicsIdle({}, absl::ZeroDuration(), rates, {})));
}

TEST(IdleTest, ADeclineIsBusyOrRefused) {
  EXPECT_EQ(OutcomeOfDecline(absl::UnavailableError("")), v1::OUTCOME_SKIPPED_BUSY);
  EXPECT_EQ(OutcomeOfDecline(absl::FailedPreconditionError("")), v1::OUTCOME_REFUSED);
  EXPECT_EQ(OutcomeOfDecline(absl::CancelledError("")), v1::OUTCOME_FAILED);
}

TEST(JobWatchTest, AForeignProcessIsASignAtOnceAndOursAreNone) {
  JobWatch watch;
  v1::GpuActivity probing = WithProcess(1001);
  probing.mutable_gpus(0)->set_utilization_percent(100);
  probing.mutable_gpus(0)->set_memory_used_bytes(100ull << 30);
  EXPECT_TRUE(watch.Look(probing, KinshipOfTest).ok()) << "that load is the probe's";
  EXPECT_TRUE(absl::IsUnavailable(watch.Look(WithProcess(2001), KinshipOfTest)));
}

TEST(JobWatchTest, AProcessOfOursThatHasEndedIsNoSignHoweverLongTheDriverNamesIt) {
  JobWatch watch;
  bool gone = false;
  const auto kinship = [&](pid_t) { return gone ? Kinship::kGone : Kinship::kOwn; };
  EXPECT_TRUE(watch.Look(WithProcess(1001), kinship).ok());
  gone = true;
  EXPECT_TRUE(watch.Look(WithProcess(1001), kinship).ok());
  EXPECT_TRUE(watch.Look(WithProcess(1001), kinship).ok());
  EXPECT_TRUE(absl::IsUnavailable(watch.Look(WithProcess(1001), [](pid_t) { return Kinship::kForeign; })))
      << "the number was used anew";
}

TEST(JobWatchTest, AProcessOutOfSightIsASignOnlyWhenItStays) {
  JobWatch watch;
  EXPECT_TRUE(watch.Look(WithProcess(3001), KinshipOfTest).ok()) << "it may have ended just now";
  EXPECT_TRUE(watch.Look(Idle(), KinshipOfTest).ok());
  EXPECT_TRUE(watch.Look(WithProcess(3001), KinshipOfTest).ok());
  EXPECT_TRUE(watch.Look(WithProcess(3002), KinshipOfTest).ok()) << "another one";
  EXPECT_TRUE(absl::IsUnavailable(watch.Look(WithProcess(3002), KinshipOfTest)));
}

TEST(JobWatchTest, ADriverThatNoLongerSaysIsTold) {
  v1::GpuActivity silent = Idle();
  silent.mutable_gpus(0)->set_processes_known(false);
  EXPECT_TRUE(absl::IsFailedPrecondition(JobWatch().Look(silent, KinshipOfTest)));
}

}  // namespace
}  // namespace weft
