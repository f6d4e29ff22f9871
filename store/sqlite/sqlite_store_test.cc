#include "store/sqlite/sqlite_store.h"

#include <spawn.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/file.h"
#include "base/id.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/conformance_test.h"

namespace weft {
namespace {

// A folder that goes away with it.
class TempFolder {
 public:
  TempFolder() : path_(testing::TempDir() + "/weft_store_" + RandomHex(6)) {
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  std::string database() const { return path_ + "/weft.db"; }

 private:
  const std::string path_;
};

std::unique_ptr<Store> OpenOrDie(const SqliteStoreOptions& options) {
  auto store = OpenSqliteStore(options);
  if (!store.ok()) {
    ADD_FAILURE() << store.status();
    std::abort();
  }
  return *std::move(store);
}

SqliteStoreOptions At(const TempFolder& folder) {
  SqliteStoreOptions options;
  options.path = folder.database();
  return options;
}

class SqliteUnderTest : public StoreUnderTest {
 public:
  Store& store() override { return *store_; }
  void Reopen() override {
    store_.reset();
    store_ = OpenOrDie(At(folder_));
  }

 private:
  TempFolder folder_;
  std::unique_ptr<Store> store_ = OpenOrDie(At(folder_));
};

std::unique_ptr<StoreUnderTest> MakeSqliteStore() { return std::make_unique<SqliteUnderTest>(); }

// Another program's connection to the same file.
class Intruder {
 public:
  explicit Intruder(const std::string& path) { EXPECT_EQ(sqlite3_open(path.c_str(), &handle_), SQLITE_OK); }
  ~Intruder() { sqlite3_close(handle_); }
  void Do(const char* sql) {
    EXPECT_EQ(sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(handle_);
  }
  std::string Ask(const char* sql) {
    std::string answer;
    const auto keep = [](void* out, int, char** values, char**) {
      *static_cast<std::string*>(out) = values[0] == nullptr ? "" : values[0];
      return 0;
    };
    EXPECT_EQ(sqlite3_exec(handle_, sql, keep, &answer, nullptr), SQLITE_OK) << sqlite3_errmsg(handle_);
    return answer;
  }

 private:
  sqlite3* handle_ = nullptr;
};

TEST(SqliteStoreTest, ANewFileGetsTheSchemaAndItsSettings) {
  const TempFolder folder;
  OpenOrDie(At(folder));
  Intruder intruder(folder.database());
  EXPECT_EQ(intruder.Ask("PRAGMA user_version"), "1");
  EXPECT_EQ(intruder.Ask("PRAGMA journal_mode"), "wal");
  EXPECT_EQ(intruder.Ask("PRAGMA auto_vacuum"), "2");
  EXPECT_EQ(intruder.Ask("SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND NOT strict "
                         "AND name NOT LIKE 'sqlite_%'"),
            "0");
}

TEST(SqliteStoreTest, ANewerDatabaseIsRefusedAndLeftAsItIs) {
  const TempFolder folder;
  OpenOrDie(At(folder));
  Intruder(folder.database()).Do("PRAGMA user_version = 99");
  const auto store = OpenSqliteStore(At(folder));
  EXPECT_EQ(store.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(store.status().message()), testing::HasSubstr("schema version 99"));
  EXPECT_EQ(Intruder(folder.database()).Ask("PRAGMA user_version"), "99");
}

TEST(SqliteStoreTest, AnotherProgramsDatabaseIsRefused) {
  const TempFolder folder;
  Intruder(folder.database()).Do("CREATE TABLE song (title TEXT)");
  EXPECT_EQ(OpenSqliteStore(At(folder)).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(SqliteStoreTest, AFolderThatIsNotThereIsUnavailable) {
  SqliteStoreOptions options;
  options.path = testing::TempDir() + "/no/such/folder/weft.db";
  EXPECT_EQ(OpenSqliteStore(options).status().code(), absl::StatusCode::kUnavailable);
}

TEST(SqliteStoreTest, AFileThatIsNoDatabaseIsDataLoss) {
  const TempFolder folder;
  std::ofstream(folder.database()) << std::string(8192, 'x');
  EXPECT_EQ(OpenSqliteStore(At(folder)).status().code(), absl::StatusCode::kDataLoss);
}

TEST(SqliteStoreTest, DamagedPagesAreDataLossAtStart) {
  const TempFolder folder;
  {
    auto store = OpenOrDie(At(folder));
    ASSERT_EQ(store->PutRuns({TestRun("r1")}), absl::OkStatus());
  }
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(folder.database()));
  std::fstream file(folder.database(), std::ios::in | std::ios::out | std::ios::binary);
  for (std::streamoff page = 4096; page < size; page += 4096) {
    file.seekp(page);
    file << std::string(64, '\xa5');
  }
  file.close();
  EXPECT_EQ(OpenSqliteStore(At(folder)).status().code(), absl::StatusCode::kDataLoss);
}

TEST(SqliteStoreTest, DamageIsToldInWordsBeforeSqlites) {
  const TempFolder folder;
  {
    auto store = OpenOrDie(At(folder));
    ASSERT_EQ(store->PutRuns({TestRun("r1")}), absl::OkStatus());
  }
  // The pointer map, which auto_vacuum keeps on page 2.
  std::fstream file(folder.database(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4096);
  file << std::string(64, '\xa5');
  file.close();
  const absl::Status status = OpenSqliteStore(At(folder)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::StartsWith("database " + folder.database() + " is damaged. Keep it"),
                             testing::HasSubstr("(SQLite says: "), testing::Not(testing::HasSubstr("\n"))));
}

TEST(SqliteStoreTest, AWriterWaitsForAnotherProgramsLockUpToItsBudget) {
  const TempFolder folder;
  SqliteStoreOptions options = At(folder);
  options.busy_budget = absl::Milliseconds(100);
  auto store = OpenOrDie(options);
  Intruder intruder(folder.database());
  intruder.Do("BEGIN IMMEDIATE");
  EXPECT_EQ(store->PutRuns({TestRun("r1")}).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(store->ListRuns({}, {}).ok());  // readers do not mind
  intruder.Do("COMMIT");
  EXPECT_EQ(store->PutRuns({TestRun("r1")}), absl::OkStatus());
}

TEST(SqliteStoreTest, ALockWithinTheBudgetIsNotNoticed) {
  const TempFolder folder;
  SqliteStoreOptions options = At(folder);
  options.busy_budget = absl::Seconds(60);
  auto store = OpenOrDie(options);
  Intruder intruder(folder.database());
  intruder.Do("BEGIN IMMEDIATE");
  auto write = std::async(std::launch::async, [&] { return store->PutRuns({TestRun("r1")}); });
  EXPECT_EQ(write.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  intruder.Do("COMMIT");
  EXPECT_EQ(write.get(), absl::OkStatus());
}

TEST(SqliteStoreTest, AFullQueueRefusesResultsAtOnceAndStillTakesOtherWrites) {
  const TempFolder folder;
  SqliteStoreOptions options = At(folder);
  options.busy_budget = absl::Seconds(60);
  options.max_queued_writes = 3;
  auto store = OpenOrDie(options);
  ASSERT_EQ(store->PutRuns({WideRun("r1", 64)}), absl::OkStatus());
  Intruder intruder(folder.database());
  intruder.Do("BEGIN IMMEDIATE");
  std::atomic<int> stored = 0;
  absl::Status status;
  uint64_t accepted = 0;
  while (status.ok() && accepted < 10) {
    status = store->AppendResults(
        {"node-a", "e", {{accepted + 1, TestResult("r1", "node-a", static_cast<uint32_t>(accepted))}}},
        [&](const absl::StatusOr<ResultAppendOutcome>& o) { stored += o.ok(); });
    accepted += status.ok() ? 1 : 0;
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(accepted, 3u);
  auto other = std::async(std::launch::async, [&] { return store->PutRuns({TestRun("r2")}); });
  intruder.Do("COMMIT");
  EXPECT_EQ(other.get(), absl::OkStatus());
  store.reset();
  EXPECT_EQ(stored, 3);
}

TEST(SqliteStoreTest, AFailingRequestDoesNotSpoilItsGroup) {
  const TempFolder folder;
  SqliteStoreOptions options = At(folder);
  options.busy_budget = absl::Seconds(60);
  auto store = OpenOrDie(options);
  ASSERT_EQ(store->PutRuns({WideRun("r1", 64)}), absl::OkStatus());
  Intruder intruder(folder.database());
  intruder.Do("BEGIN IMMEDIATE");  // holds the writer, so that all of these wait together
  std::vector<absl::StatusCode> codes;
  for (uint64_t i = 1; i <= 9; ++i) {
    Result result = TestResult("r1", "node-a", static_cast<uint32_t>(i));
    if (i % 3 == 0) result.measurements[0].value = std::numeric_limits<double>::quiet_NaN();
    ASSERT_EQ(store->AppendResults({"node-a", "e", {{i, result}}},
                                   [&](const absl::StatusOr<ResultAppendOutcome>& outcome) {
                                     codes.push_back(outcome.status().code());
                                   }),
              absl::OkStatus());
  }
  intruder.Do("COMMIT");
  store.reset();  // commits what is queued
  EXPECT_EQ(std::count(codes.begin(), codes.end(), absl::StatusCode::kOk), 6);
  EXPECT_EQ(std::count(codes.begin(), codes.end(), absl::StatusCode::kInvalidArgument), 3);
  EXPECT_EQ(Intruder(folder.database()).Ask("SELECT count(*) FROM result"), "6");
}

TEST(SqliteStoreTest, AFullDiskLosesNothingAcknowledgedAndWritingGoesOnWhenThereIsRoom) {
  const TempFolder folder;
  SqliteStoreOptions options = At(folder);
  options.max_bytes = 1 << 20;
  auto store = OpenOrDie(options);
  uint64_t acknowledged = 0;
  absl::Status status;
  for (uint64_t i = 1; status.ok() && i < 10000; ++i) {
    const std::string id = absl::StrCat("r", i);
    status = store->PutRuns({WideRun(id, 2)});
    if (!status.ok()) break;
    ResultAppend append{"node-a", "e", {{2 * i, TestResult(id)}, {2 * i + 1, TestResult(id, "node-a", 1)}}};
    append.records[1].result.tool_output.assign(8000, 't');
    const auto outcome = AppendAndWait(*store, append);
    status = outcome.status();
    if (outcome.ok()) acknowledged += 2;
  }
  ASSERT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_GT(acknowledged, 0u);
  EXPECT_EQ(store->Stats()->results, acknowledged);
  EXPECT_EQ(store->ReadResults(0, 100000)->size(), acknowledged);
  ASSERT_EQ(store->CommitDetection({1 << 20, {}, {}, {}, {}}), absl::OkStatus());
  EXPECT_GT(store->DeleteOlderThan(TestTime(100), 100).value(), 0u);
  EXPECT_EQ(store->PutRuns({TestRun("after")}), absl::OkStatus());
  EXPECT_TRUE(AppendAndWait(*store, {"node-a", "e", {{1, TestResult("after")}}}).ok());
}

TEST(SqliteStoreTest, AGroupThatMeetsAFullDiskIsRedoneOneByOne) {
  const TempFolder folder;
  SqliteStoreOptions options = At(folder);
  options.max_bytes = 1 << 20;
  options.busy_budget = absl::Seconds(60);
  auto store = OpenOrDie(options);
  ASSERT_EQ(store->PutRuns({WideRun("r1", 64)}), absl::OkStatus());
  Intruder intruder(folder.database());
  intruder.Do("BEGIN IMMEDIATE");
  std::map<uint64_t, absl::Status> outcomes;
  for (uint64_t i = 1; i <= 40; ++i) {
    Result result = TestResult("r1", "node-a", static_cast<uint32_t>(i));
    if (i == 20) result.tool_output.assign(2 << 20, 't');  // larger than the whole database may be
    ASSERT_EQ(store->AppendResults({"node-a", "e", {{i, result}}},
                                   [&outcomes, i](const absl::StatusOr<ResultAppendOutcome>& outcome) {
                                     outcomes[i] = outcome.status();
                                   }),
              absl::OkStatus());
  }
  intruder.Do("COMMIT");
  store.reset();
  for (const auto& [i, status] : outcomes) EXPECT_EQ(absl::IsUnavailable(status), i == 20) << status;
  EXPECT_EQ(Intruder(folder.database()).Ask("SELECT count(*) FROM result"), "39");
}

TEST(SqliteStoreTest, SequencesInOrderTakeOneRangeAndAHoleOneMore) {
  const TempFolder folder;
  auto store = OpenOrDie(At(folder));
  ASSERT_EQ(store->PutRuns({WideRun("r1", 64)}), absl::OkStatus());
  for (const uint64_t sequence : {9u, 8u, 7u, 1u, 2u, 3u, 5u}) {
    ASSERT_TRUE(
        AppendAndWait(
            *store,
            {"node-a", "e", {{sequence, TestResult("r1", "node-a", static_cast<uint32_t>(sequence))}}})
            .ok());
  }
  Intruder intruder(folder.database());
  EXPECT_EQ(intruder.Ask("SELECT group_concat(first_sequence || '-' || last_sequence) FROM stored_range"),
            "1-3,5-5,7-9");
}

TEST(SqliteStoreTest, TheWriteAheadLogShrinksAfterAReaderThatHeldIt) {
  const TempFolder folder;
  auto store = OpenOrDie(At(folder));
  ASSERT_EQ(store->PutRuns({WideRun("r1", 64)}), absl::OkStatus());
  Intruder intruder(folder.database());
  intruder.Do("BEGIN; SELECT count(*) FROM run");
  for (uint64_t i = 1; i <= 50; ++i) {
    ASSERT_TRUE(
        AppendAndWait(*store, {"node-a", "e", {{i, TestResult("r1", "node-a", static_cast<uint32_t>(i))}}})
            .ok());
  }
  EXPECT_GT(store->Stats()->wal_bytes, 0u);
  intruder.Do("COMMIT");
  store.reset();
  EXPECT_FALSE(std::filesystem::exists(folder.database() + "-wal") &&
               std::filesystem::file_size(folder.database() + "-wal") > 0);
}

// A child that appends; what it acknowledged before it was killed.
class KilledWriter {
 public:
  KilledWriter(const std::string& database, uint64_t first) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    const char* folder = std::getenv("WEFT_BIN_DIR");
    const std::string program = absl::StrCat(folder != nullptr ? folder : OwnFolder() + "/../bin",
                                             "/weft-store-acknowledging-writer");
    std::string number = std::to_string(first);
    std::string path = database;
    std::string name = program;
    char* argv[] = {name.data(), path.data(), number.data(), nullptr};
    EXPECT_EQ(posix_spawn(&child_, program.c_str(), &actions, nullptr, argv, environ), 0) << program;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    acknowledgements_ = ends[0];
  }

  // Kills it once it has acknowledged `count`; all that it acknowledged.
  std::set<uint64_t> KillAfter(size_t count) {
    std::set<uint64_t> acknowledged;
    bool alive = true;
    for (uint64_t sequence = 0; read(acknowledgements_, &sequence, sizeof(sequence)) == sizeof(sequence);) {
      acknowledged.insert(sequence);
      if (alive && acknowledged.size() >= count) {
        kill(child_, SIGKILL);
        alive = false;
      }
    }
    close(acknowledgements_);
    int status = 0;
    waitpid(child_, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    return acknowledged;
  }

 private:
  pid_t child_ = 0;
  int acknowledgements_ = -1;
};

TEST(SqliteStoreTest, NothingAcknowledgedIsLostOrDoubledByKill9) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  const TempFolder folder;
  std::set<uint64_t> acknowledged;
  for (int life = 0; life < 8; ++life) {
    // Begins with some that were sent before, as an agent whose ack was lost.
    const uint64_t last = acknowledged.empty() ? 0 : *acknowledged.rbegin();
    KilledWriter writer(folder.database(), last > 20 ? last - 20 : 1);
    acknowledged.merge(writer.KillAfter(1 + random() % 400));
  }
  auto store = OpenOrDie(At(folder));
  const auto results = store->ReadResults(0, 10000000);
  ASSERT_TRUE(results.ok()) << results.status();
  std::map<uint64_t, int> stored;
  for (const StoredResult& result : *results) ++stored[std::stoull(result.result.detail)];
  for (const uint64_t sequence : acknowledged) EXPECT_EQ(stored[sequence], 1) << sequence;
  for (const auto& [sequence, times] : stored) EXPECT_EQ(times, 1) << sequence;
  EXPECT_EQ(store->Stats()->results, stored.size());
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Sqlite, StoreConformanceTest, testing::Values(StoreFactory(&MakeSqliteStore)));

}  // namespace weft
