#include "server/app/detect_loop.h"

#include <filesystem>
#include <thread>

#include "base/id.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/sqlite/sqlite_store.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

class DetectLoopTest : public testing::Test {
 protected:
  DetectLoopTest() : view_(Clock::Real().Now()) {
    std::filesystem::create_directories(folder_);
    store_ = *OpenSqliteStore({.path = folder_ + "/weft.db"});
    NodeRecord record;
    record.node.id = "id-1";
    record.node.hostname = "gpu001";
    record.last_seen = Clock::Real().Now() - absl::Hours(1);
    EXPECT_EQ(store_->PutNode(record), absl::OkStatus());
    DetectLoopOptions options;
    options.liveness.server_start = Clock::Real().Now() - absl::Hours(1);
    options.receivers = {"pager"};
    loop_ = std::make_unique<DetectLoop>(std::move(options), Detector(DetectorOptions{}), *store_,
                                         Clock::Real(), outbox_mutex_, view_, counters_);
    EXPECT_EQ(loop_->Recover(), absl::OkStatus());
    loop_->Start();
  }
  ~DetectLoopTest() override {
    loop_->Stop();
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  // The one episode, once it is open or over.
  Episode AwaitEpisode(bool open) {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (absl::Now() < deadline) {
      const auto episodes = store_->ListEpisodes({}, {});
      if (episodes.ok() && episodes->size() == 1 && episodes->front().is_open() == open)
        return episodes->front();
      std::this_thread::yield();
    }
    ADD_FAILURE() << "no such episode came";
    return {};
  }

  const std::string folder_ = testing::TempDir() + "/weft_detect_loop_" + RandomHex(6);
  std::unique_ptr<Store> store_;
  Mutex outbox_mutex_;
  FleetView view_;
  MetricCounters counters_{{}};
  std::unique_ptr<DetectLoop> loop_;
};

TEST_F(DetectLoopTest, TheFindingOfARemovedNodeEndsAndSaysByWhom) {
  const Episode open = AwaitEpisode(true);
  EXPECT_EQ(open.finding.kind, FindingKind::kAgentMissing);
  ASSERT_EQ(store_->RemoveNode("id-1"), absl::OkStatus());
  loop_->NoteRemoved("id-1", "node gpu001 removed by ann");
  EXPECT_THAT(AwaitEpisode(false).finding.summary,
              HasSubstr("node gpu001 removed by ann; before: the agent has not been heard of since"));
  const auto deliveries = store_->ListDeliveries(open.id, {});
  ASSERT_TRUE(deliveries.ok());
  // The notification that never went out is dropped: nobody has to be told of the end.
  ASSERT_EQ(deliveries->size(), 1u);
  EXPECT_EQ(deliveries->front().state, DeliveryState::kDropped);
}

}  // namespace
}  // namespace weft
