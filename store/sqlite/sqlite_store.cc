#include "store/sqlite/sqlite_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "spdlog/spdlog.h"
#include "store/sqlite/counter_rows.h"
#include "store/sqlite/database.h"
#include "store/sqlite/delivery_rows.h"
#include "store/sqlite/detection_rows.h"
#include "store/sqlite/group_writer.h"
#include "store/sqlite/migrate.h"
#include "store/sqlite/node_rows.h"
#include "store/sqlite/read_pool.h"
#include "store/sqlite/result_rows.h"
#include "store/sqlite/retention.h"
#include "store/sqlite/run_rows.h"
#include "store/sqlite/window_rows.h"

namespace weft {
namespace {

using sqlite::Database;

// A large database is checked for this long at start, not longer: the server must come up.
constexpr absl::Duration kCheckTime = absl::Seconds(10);
constexpr off_t kRoom = 1 << 20;  // the largest batch of an agent

uint64_t FileBytes(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

// Reserves what a batch may need and gives it back. A commit of one page may still find room where a batch
// would not.
absl::Status CheckRoom(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  int error = fd < 0 ? errno : posix_fallocate(fd, 0, kRoom);
  while (error == EINTR) error = posix_fallocate(fd, 0, kRoom);
  if (fd >= 0) close(fd);
  unlink(path.c_str());
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("no room for 1 MiB at ", path, ": ",
                                             std::error_code(error, std::generic_category()).message()));
}

class SqliteStore : public Store {
 public:
  SqliteStore(std::string path, std::unique_ptr<sqlite::GroupWriter> writer,
              std::unique_ptr<sqlite::ReadPool> readers)
      : path_(std::move(path)), readers_(std::move(readers)), writer_(std::move(writer)) {}

  absl::Status PutNode(const NodeRecord& record) override {
    return writer_->Run([&](Database& database) { return sqlite::PutNode(database, record); });
  }
  absl::StatusOr<std::vector<NodeRecord>> ListNodes() override { return readers_->Run(&sqlite::ListNodes); }

  absl::Status RemoveNode(absl::string_view node_id) override {
    return writer_->Run([&](Database& database) { return sqlite::RemoveNode(database, node_id); });
  }

  absl::Status PutRuns(const std::vector<Run>& runs) override {
    return writer_->Run([&](Database& database) { return sqlite::PutRuns(database, runs); });
  }
  absl::Status FinishRuns(const std::vector<Run>& runs) override {
    return writer_->Run([&](Database& database) { return sqlite::FinishRuns(database, runs); });
  }
  absl::StatusOr<std::vector<Run>> ListRuns(const RunFilter& filter, const PageRequest& page) override {
    return readers_->Run([&](Database& database) { return sqlite::ListRuns(database, filter, page); });
  }
  absl::StatusOr<Run> GetRun(absl::string_view id) override {
    return readers_->Run([&](Database& database) { return sqlite::GetRun(database, id); });
  }
  absl::StatusOr<std::vector<Run>> ListActiveRuns() override {
    return readers_->Run(&sqlite::ListActiveRuns);
  }
  absl::StatusOr<uint64_t> LastRound(absl::string_view probe, absl::string_view cohort) override {
    return readers_->Run([&](Database& database) { return sqlite::LastRound(database, probe, cohort); });
  }

  absl::Status AppendResults(ResultAppend append,
                             std::function<void(absl::StatusOr<ResultAppendOutcome>)> done) override {
    struct Pending {
      ResultAppend append;
      ResultAppendOutcome outcome;
    };
    const size_t rows = append.records.size();
    const auto pending = std::make_shared<Pending>(Pending{std::move(append), {}});
    return writer_->Submit(
        rows,
        [pending](Database& database) {
          return sqlite::AppendResults(database, pending->append, &pending->outcome);
        },
        [pending, done = std::move(done)](absl::Status status) {
          if (!status.ok()) return done(std::move(status));
          done(std::move(pending->outcome));
        });
  }
  absl::StatusOr<std::vector<StoredResult>> ReadResults(int64_t after, int32_t limit) override {
    return readers_->Run([&](Database& database) { return sqlite::ReadResults(database, after, limit); });
  }
  absl::StatusOr<std::vector<StoredResult>> ResultsOfRuns(const std::vector<std::string>& run_ids) override {
    return readers_->Run([&](Database& database) { return sqlite::ResultsOfRuns(database, run_ids); });
  }
  absl::StatusOr<std::vector<StoredResult>> NodeHistory(absl::string_view node_id, absl::Time since,
                                                        const PageRequest& page) override {
    return readers_->Run(
        [&](Database& database) { return sqlite::NodeHistory(database, node_id, since, page); });
  }

  absl::Status CommitDetection(const DetectionCommit& commit) override {
    return writer_->Run([&](Database& database) { return sqlite::CommitDetection(database, commit); });
  }
  absl::StatusOr<int64_t> DetectionCursor() override {
    return readers_->Run(
        [](Database& database) { return sqlite::ReadCounter(database, "detection_cursor"); });
  }
  absl::StatusOr<std::vector<DetectorState>> LoadDetectorStates() override {
    return readers_->Run(&sqlite::LoadDetectorStates);
  }
  absl::StatusOr<std::vector<Episode>> OpenEpisodes() override {
    return readers_->Run(&sqlite::OpenEpisodes);
  }
  absl::StatusOr<std::vector<Episode>> ListEpisodes(const EpisodeFilter& filter,
                                                    const PageRequest& page) override {
    return readers_->Run([&](Database& database) { return sqlite::ListEpisodes(database, filter, page); });
  }
  absl::StatusOr<Episode> GetEpisode(absl::string_view id) override {
    return readers_->Run([&](Database& database) { return sqlite::GetEpisode(database, id); });
  }

  absl::StatusOr<std::vector<Delivery>> PendingDeliveries() override {
    return readers_->Run(&sqlite::PendingDeliveries);
  }
  absl::Status UpdateDelivery(const Delivery& delivery) override {
    return writer_->Run([&](Database& database) { return sqlite::UpdateDelivery(database, delivery); });
  }
  absl::StatusOr<std::vector<Delivery>> ListDeliveries(absl::string_view episode_id,
                                                       const PageRequest& page) override {
    return readers_->Run(
        [&](Database& database) { return sqlite::ListDeliveries(database, episode_id, page); });
  }

  absl::StatusOr<MaintenanceWindow> CreateWindow(const MaintenanceWindow& window) override {
    return Write([&](Database& database) { return sqlite::CreateWindow(database, window); });
  }
  absl::Status UpdateWindow(const MaintenanceWindow& window) override {
    return writer_->Run([&](Database& database) { return sqlite::UpdateWindow(database, window); });
  }
  absl::StatusOr<std::vector<MaintenanceWindow>> ListWindows() override {
    return readers_->Run(&sqlite::ListWindows);
  }

  absl::StatusOr<uint64_t> DeleteOlderThan(absl::Time before, int32_t max_rows) override {
    return Write([&](Database& database) { return sqlite::DeleteOlderThan(database, before, max_rows); });
  }
  absl::StatusOr<StoreStats> Stats() override {
    return readers_->Run([&](Database& database) { return ReadStats(database); });
  }
  absl::Status TestWrite() override {
    if (absl::Status status = CheckRoom(path_ + "-room"); !status.ok()) return status;
    return writer_->Run([](Database& database) {
      return sqlite::Query(database,
                           "INSERT INTO counter (name, value) VALUES ('test_write', 1) "
                           "ON CONFLICT (name) DO UPDATE SET value = value + 1")
          .Run();
    });
  }

 private:
  // A write that also answers something.
  template <typename Work>
  auto Write(Work work) -> decltype(work(std::declval<Database&>())) {
    decltype(work(std::declval<Database&>())) answer = absl::UnknownError("not run");
    const absl::Status status = writer_->Run([&](Database& database) {
      answer = work(database);
      // An error goes back by the status alone, so that two threads never share it.
      absl::Status failed = answer.status();
      if (!failed.ok()) answer = absl::UnknownError("failed");
      return failed;
    });
    if (!status.ok()) return status;
    return answer;
  }

  absl::StatusOr<StoreStats> ReadStats(Database& database) const {
    const absl::StatusOr<int64_t> results = sqlite::ReadCounter(database, "result");
    if (!results.ok()) return results.status();
    const absl::StatusOr<int64_t> rounds = sqlite::ReadCounter(database, "round");
    if (!rounds.ok()) return rounds.status();
    StoreStats stats;
    stats.results = static_cast<uint64_t>(*results);
    stats.rounds = static_cast<uint64_t>(*rounds);
    stats.wal_bytes = FileBytes(path_ + "-wal");
    stats.bytes = FileBytes(path_) + stats.wal_bytes;
    return stats;
  }

  const std::string path_;
  const std::unique_ptr<sqlite::ReadPool> readers_;
  const std::unique_ptr<sqlite::GroupWriter> writer_;  // stops first
};

absl::Status QuickCheck(Database& database) {
  database.set_deadline(Clock::Real().Monotonic() + kCheckTime);
  sqlite::Query query(database, "PRAGMA quick_check(1)");
  const std::string answer = query.Next() ? query.Text(0) : "";
  database.set_deadline(absl::InfiniteDuration());
  if (absl::IsDeadlineExceeded(query.status())) {
    spdlog::warn("database {} is large: only the part checked in {} is known to be sound", database.path(),
                 absl::FormatDuration(kCheckTime));
    return absl::OkStatus();
  }
  if (!query.status().ok() || answer == "ok") return query.status();
  // SQLite's own words ("Bad ptr map entry …") help only who repairs databases, and take several lines.
  return absl::DataLossError(
      absl::StrCat("database ", database.path(),
                   " is damaged. Keep it and the files -wal and -shm beside it for repair, and restore a "
                   "backup or begin anew with another data_dir (SQLite says: ",
                   absl::StrJoin(absl::StrSplit(answer, '\n'), "; "), ")"));
}

absl::Status LimitSize(Database& database, uint64_t max_bytes) {
  if (max_bytes == 0) return absl::OkStatus();
  sqlite::Query page_size(database, "PRAGMA page_size");
  if (!page_size.Next()) return page_size.status();
  const std::string sql = absl::StrCat("PRAGMA max_page_count = ", max_bytes / page_size.Unsigned(0));
  return database.Execute(sql.c_str());
}

absl::StatusOr<std::unique_ptr<Database>> OpenForWriting(const SqliteStoreOptions& options) {
  sqlite::DatabaseOptions database_options;
  database_options.path = options.path;
  database_options.busy_budget = options.busy_budget;
  absl::StatusOr<std::unique_ptr<Database>> database = Database::Open(database_options);
  if (!database.ok()) return database.status();
  absl::Status status = QuickCheck(**database);
  if (status.ok()) status = sqlite::Migrate(**database);
  if (status.ok()) status = LimitSize(**database, options.max_bytes);
  if (!status.ok()) return status;
  return database;
}

absl::StatusOr<std::unique_ptr<sqlite::ReadPool>> OpenReaders(const SqliteStoreOptions& options) {
  sqlite::ReadPoolOptions pool_options;
  pool_options.database.path = options.path;
  pool_options.database.busy_budget = options.busy_budget;
  pool_options.connections = options.readers;
  pool_options.read_budget = options.read_budget;
  return sqlite::ReadPool::Open(pool_options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(const SqliteStoreOptions& options) {
  absl::StatusOr<std::unique_ptr<Database>> database = OpenForWriting(options);
  if (!database.ok()) return database.status();
  absl::StatusOr<std::unique_ptr<sqlite::ReadPool>> readers = OpenReaders(options);
  if (!readers.ok()) return readers.status();
  sqlite::GroupWriterOptions writer_options;
  writer_options.max_queued = options.max_queued_writes;
  writer_options.busy_budget = options.busy_budget;
  auto writer = std::make_unique<sqlite::GroupWriter>(*std::move(database), writer_options);
  return std::make_unique<SqliteStore>(options.path, std::move(writer), *std::move(readers));
}

}  // namespace weft
