// The one thread that writes. Requests that wait together are committed together, so that many small writes
// share one fsync.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "store/sqlite/database.h"

namespace weft::sqlite {

struct GroupWriterOptions {
  size_t max_queued = 4096;                           // requests of Submit that may wait
  size_t group_rows = 1000;                           // a group is closed when it holds this many rows
  absl::Duration group_time = absl::Milliseconds(5);  // or has taken this long
  absl::Duration busy_budget = absl::Seconds(5);      // as the database has it
  absl::Duration quiet_time = absl::Seconds(1);       // without work: the moment to tidy up
  uint64_t max_wal_bytes = 64u << 20;                 // above this it tidies up even when busy
};

// Thread-safe. The destructor commits what is queued, then joins.
class GroupWriter {
 public:
  // Runs on the writer thread inside a savepoint of a transaction, again if the group must be redone: it
  // starts afresh each time. A failure undoes this request only.
  using Work = std::function<absl::Status(Database&)>;
  // Runs on the writer thread after the commit, or after the failure. Short; does not call the writer.
  // The status is the callee's alone: no thread shares its representation.
  using Done = std::function<void(absl::Status)>;

  GroupWriter(std::unique_ptr<Database> database, const GroupWriterOptions& options);
  ~GroupWriter();

  // kUnavailable at once, without calling `done`, when the queue is full.
  absl::Status Submit(size_t rows, Work work, Done done) WEFT_EXCLUDES(mutex_);
  // Waits for the commit. Always has room: callers are few and wait.
  absl::Status Run(Work work) WEFT_EXCLUDES(mutex_);

 private:
  struct Request {
    size_t rows;
    bool counted;  // against max_queued
    Work work;
    Done done;
  };
  // Requests whose work is done in the open transaction, and how each ended.
  struct Group {
    std::vector<Request> requests;
    std::vector<absl::Status> statuses;
  };

  void Enqueue(Request request) WEFT_REQUIRES(mutex_);
  void Loop();
  bool WaitForWork() WEFT_EXCLUDES(mutex_);
  bool Pop(Request* request) WEFT_EXCLUDES(mutex_);
  std::vector<Request> PopAll() WEFT_EXCLUDES(mutex_);
  void WriteGroup();
  void Gather(Group& group);
  absl::Status RunInSavepoint(const Work& work);
  absl::Status Commit();
  void Rollback();
  void RedoSingly(Group& group);
  absl::Status RunAlone(const Work& work);
  void RefuseAll(const absl::Status& status);
  void TidyIfLarge();
  void Tidy();
  void Truncate();
  uint64_t WalBytes() const;

  const std::unique_ptr<Database> database_;  // used by the writer thread only
  const GroupWriterOptions options_;
  absl::Status damaged_;          // writer thread: not OK once the database was found damaged
  absl::Duration next_truncate_;  // writer thread; monotonic

  Mutex mutex_;
  CondVar cv_;
  std::deque<Request> queue_ WEFT_GUARDED_BY(mutex_);
  size_t counted_ WEFT_GUARDED_BY(mutex_) = 0;
  bool stop_ WEFT_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace weft::sqlite
