#include "store/sqlite/group_writer.h"

#include <pthread.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "spdlog/spdlog.h"

namespace weft::sqlite {
namespace {

// Readers may hold the write-ahead log back; it is not worth stopping the writer for long.
constexpr absl::Duration kTruncateWait = absl::Milliseconds(50);
constexpr absl::Duration kTruncatePause = absl::Seconds(1);
// Free pages are given back to the file system only when they are this share of the file, a little at a time.
constexpr int64_t kFreeShare = 4;

// With a representation of its own. Packaged Abseil counts shared ones out of ThreadSanitizer's sight.
absl::Status Copy(const absl::Status& status) { return absl::Status(status.code(), status.message()); }

int64_t NumberOr(Database& database, const char* sql, int64_t otherwise) {
  Query query(database, sql);
  return query.Next() ? query.Int(0) : otherwise;
}

}  // namespace

GroupWriter::GroupWriter(std::unique_ptr<Database> database, const GroupWriterOptions& options)
    : database_(std::move(database)), options_(options) {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "store-writer");
    Loop();
  });
}

GroupWriter::~GroupWriter() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    cv_.NotifyAll();
  }
  thread_.join();
}

absl::Status GroupWriter::Submit(size_t rows, Work work, Done done) {
  MutexLock lock(mutex_);
  if (counted_ >= options_.max_queued) {
    return absl::UnavailableError(
        absl::StrCat("the store's queue of ", options_.max_queued, " writes is full; send again later"));
  }
  Enqueue({rows, true, std::move(work), std::move(done)});
  return absl::OkStatus();
}

absl::Status GroupWriter::Run(Work work) {
  Mutex mutex;
  CondVar cv;
  std::optional<absl::Status> outcome;
  const auto done = [&](absl::Status status) {
    MutexLock lock(mutex);
    outcome = std::move(status);
    cv.NotifyOne();
  };
  {
    MutexLock lock(mutex_);
    Enqueue({1, false, std::move(work), done});
  }
  MutexLock lock(mutex);
  while (!outcome.has_value()) cv.Wait(mutex);
  return *std::move(outcome);
}

void GroupWriter::Enqueue(Request request) {
  counted_ += request.counted ? 1 : 0;
  queue_.push_back(std::move(request));
  cv_.NotifyAll();
}

void GroupWriter::Loop() {
  while (WaitForWork()) {
    WriteGroup();
    TidyIfLarge();
  }
  Truncate();
}

// False when there is nothing left to do for ever.
bool GroupWriter::WaitForWork() {
  bool tidy_due = true;
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (queue_.empty() && !stop_ && tidy_due) {
        Clock::Real().WaitFor(mutex_, cv_, options_.quiet_time);
      } else if (queue_.empty() && !stop_) {
        cv_.Wait(mutex_);
      }
      if (!queue_.empty()) return true;
      if (stop_) return false;
    }
    if (tidy_due) Tidy();
    tidy_due = false;
  }
}

bool GroupWriter::Pop(Request* request) {
  MutexLock lock(mutex_);
  if (queue_.empty()) return false;
  *request = std::move(queue_.front());
  queue_.pop_front();
  counted_ -= request->counted ? 1 : 0;
  return true;
}

std::vector<GroupWriter::Request> GroupWriter::PopAll() {
  std::vector<Request> all;
  for (Request request; Pop(&request);) all.push_back(std::move(request));
  return all;
}

void GroupWriter::WriteGroup() {
  if (!damaged_.ok()) return RefuseAll(damaged_);
  // All who wait have waited the whole budget by now: letting each wait it again would only stretch the jam.
  if (const absl::Status begun = database_->Execute("BEGIN IMMEDIATE"); !begun.ok()) return RefuseAll(begun);
  Group group;
  Gather(group);
  const absl::Status committed = database_->in_transaction() ? Commit() : absl::AbortedError("lost");
  if (!committed.ok()) RedoSingly(group);
  for (const absl::Status& status : group.statuses) {
    if (absl::IsDataLoss(status)) damaged_ = Copy(status);
  }
  for (size_t i = 0; i < group.requests.size(); ++i) group.requests[i].done(std::move(group.statuses[i]));
}

// Ends early when an error has ended the transaction.
void GroupWriter::Gather(Group& group) {
  const absl::Duration end = Clock::Real().Monotonic() + options_.group_time;
  size_t rows = 0;
  for (Request request; rows < options_.group_rows && Pop(&request);) {
    rows += request.rows;
    group.statuses.push_back(RunInSavepoint(request.work));
    group.requests.push_back(std::move(request));
    if (!database_->in_transaction() || Clock::Real().Monotonic() > end) return;
  }
}

absl::Status GroupWriter::RunInSavepoint(const Work& work) {
  if (const absl::Status status = database_->Execute("SAVEPOINT request"); !status.ok()) return status;
  const absl::Status status = work(*database_);
  if (status.ok()) return database_->Execute("RELEASE request");
  // A full disk may have rolled everything back by itself; whoever commits looks at in_transaction().
  if (!database_->in_transaction()) return status;
  if (!database_->Execute("ROLLBACK TO request; RELEASE request").ok()) Rollback();
  return status;
}

absl::Status GroupWriter::Commit() {
  const absl::Status status = database_->Execute("COMMIT");
  if (!status.ok()) Rollback();
  return status;
}

void GroupWriter::Rollback() {
  if (database_->in_transaction()) database_->Execute("ROLLBACK").IgnoreError();
}

// Nothing of the group is in the database: a transaction of its own for each shows whose fault it was.
void GroupWriter::RedoSingly(Group& group) {
  for (size_t i = 0; i < group.requests.size(); ++i) group.statuses[i] = RunAlone(group.requests[i].work);
}

absl::Status GroupWriter::RunAlone(const Work& work) {
  if (const absl::Status begun = database_->Execute("BEGIN IMMEDIATE"); !begun.ok()) return begun;
  const absl::Status status = work(*database_);
  if (!status.ok()) {
    Rollback();
    return status;
  }
  if (!database_->in_transaction()) return absl::InternalError("the transaction ended without an error");
  return Commit();
}

void GroupWriter::RefuseAll(const absl::Status& status) {
  if (absl::IsDataLoss(status)) damaged_ = Copy(status);
  for (const Request& request : PopAll()) request.done(Copy(status));
}

uint64_t GroupWriter::WalBytes() const {
  struct stat info = {};
  return stat((database_->path() + "-wal").c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

void GroupWriter::TidyIfLarge() {
  if (Clock::Real().Monotonic() < next_truncate_ || WalBytes() <= options_.max_wal_bytes) return;
  Truncate();
  if (WalBytes() > options_.max_wal_bytes) {
    spdlog::warn("database {}: a reader keeps the write-ahead log at {} bytes", database_->path(),
                 WalBytes());
  }
}

void GroupWriter::Tidy() {
  const int64_t free_pages = NumberOr(*database_, "PRAGMA freelist_count", 0);
  if (free_pages > NumberOr(*database_, "PRAGMA page_count", 0) / kFreeShare) {
    database_->Execute("PRAGMA incremental_vacuum(2000)").IgnoreError();
  }
  Truncate();
}

// Moves the write-ahead log into the database and cuts it to nothing. Fails harmlessly while readers read.
void GroupWriter::Truncate() {
  next_truncate_ = Clock::Real().Monotonic() + kTruncatePause;
  database_->SetBusyBudget(std::min(kTruncateWait, options_.busy_budget));
  database_->Execute("PRAGMA wal_checkpoint(TRUNCATE)").IgnoreError();
  database_->SetBusyBudget(options_.busy_budget);
}

}  // namespace weft::sqlite
