#include "server/app/store_watch.h"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "base/id.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/sqlite/sqlite_store.h"

namespace weft {
namespace {

// What the kernel says of a file that may grow no further.
class FullDisk {
 public:
  FullDisk() {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{64 << 10, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

absl::Status AwaitOk(const StoreWatch& watch, bool ok) {
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (watch.status().ok() != ok && absl::Now() < deadline) std::this_thread::yield();
  return watch.status();
}

TEST(StoreWatchTest, SaysThatTheDiskIsFullAndByItselfThatThereIsRoomAgain) {
  const std::string folder = testing::TempDir() + "/weft_store_watch_" + RandomHex(6);
  std::filesystem::create_directories(folder);
  auto store = OpenSqliteStore({.path = folder + "/weft.db"});
  ASSERT_TRUE(store.ok()) << store.status();
  StoreWatch watch(**store, Clock::Real(), absl::Milliseconds(20));
  watch.Start();
  {
    const FullDisk full;
    const absl::Status status = AwaitOk(watch, false);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("cannot store: no room for 1 MiB at "));
  }
  EXPECT_EQ(AwaitOk(watch, true), absl::OkStatus());
  watch.Stop();
  EXPECT_FALSE(std::filesystem::exists(folder + "/weft.db-room"));
  store->reset();
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weft
