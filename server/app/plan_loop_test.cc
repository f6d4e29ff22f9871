#include "server/app/plan_loop.h"

#include <filesystem>
#include <thread>

#include "base/id.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/sqlite/sqlite_store.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

// The loop over a real store. Agents are events that the test makes.
class PlanLoopTest : public testing::Test {
 protected:
  PlanLoopTest() {
    std::filesystem::create_directories(folder_);
    store_ = *OpenSqliteStore({.path = folder_ + "/weft.db"});
    ProbeSchedule schedule;
    schedule.planner.spec.name = "fabric_write";
    schedule.planner.period = absl::Hours(1);
    schedule.deadline = absl::Minutes(1);
    loop_ = std::make_unique<PlanLoop>(std::vector<ProbeSchedule>{schedule}, absl::ZeroDuration(), *store_,
                                       Clock::Real(), streams_, counters_);
    EXPECT_EQ(loop_->Recover(), absl::OkStatus());
    loop_->Start();
  }
  ~PlanLoopTest() override {
    loop_->Stop();
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Connect(const std::string& id, const std::string& hostname) {
    AgentConnected connected;
    connected.record.node.id = id;
    connected.record.node.hostname = hostname;
    connected.probe_kinds = {"fabric"};
    loop_->Push({id, std::move(connected)});
  }
  // The newest run once it stands in `state`.
  weft::Run AwaitRun(RunState state) {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (absl::Now() < deadline) {
      const auto runs = store_->ListRuns({}, {1, ""});
      if (runs.ok() && !runs->empty() && runs->front().state == state) return runs->front();
      std::this_thread::yield();
    }
    ADD_FAILURE() << "no run came into that state";
    return {};
  }
  std::string Metrics() { return RenderMetrics({}, counters_); }

  const std::string folder_ = testing::TempDir() + "/weft_plan_loop_" + RandomHex(6);
  std::unique_ptr<Store> store_;
  AgentStreams streams_;
  MetricCounters counters_{{}};
  std::unique_ptr<PlanLoop> loop_;
};

TEST_F(PlanLoopTest, ADeclinedLeaseIsCountedAsWhatItWasAndTheRunSaysWho) {
  Connect("id-1", "gpu001");
  Connect("id-2", "gpu002");
  const weft::Run run = AwaitRun(RunState::kActive);
  loop_->Push({"id-2", LeaseAnswered{run.id, false, Outcome::kRefused, "no such probe"}});
  EXPECT_EQ(AwaitRun(RunState::kFailed).detail, "gpu002 declined: refused (no such probe)");
  EXPECT_THAT(
      Metrics(),
      HasSubstr("weft_probe_runs_total{node=\"gpu002\",outcome=\"refused\",probe=\"fabric_write\"} 1"));
  EXPECT_THAT(Metrics(), testing::Not(HasSubstr("node=\"gpu001\""))) << "it declined nothing";
}

}  // namespace
}  // namespace weft
