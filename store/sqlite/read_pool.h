// Connections for reading, lent to one caller at a time. A read sees one snapshot and is short: a long one
// would keep the write-ahead log from shrinking.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "store/sqlite/database.h"

namespace weft::sqlite {

struct ReadPoolOptions {
  DatabaseOptions database;
  int connections = 2;
  absl::Duration read_budget = absl::Seconds(5);  // a read that takes longer fails with kDeadlineExceeded
};

// Thread-safe.
class ReadPool {
 public:
  static absl::StatusOr<std::unique_ptr<ReadPool>> Open(const ReadPoolOptions& options);

  // Runs `read(Database&)`, which returns a StatusOr, in one read transaction.
  template <typename Read>
  auto Run(Read read) -> decltype(read(std::declval<Database&>())) {
    const Lease lease(*this);
    if (!lease.status().ok()) return lease.status();
    return read(lease.database());
  }

 private:
  // A connection with an open transaction, for as long as it lives.
  class Lease {
   public:
    explicit Lease(ReadPool& pool);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    const absl::Status& status() const { return status_; }
    Database& database() const { return *database_; }

   private:
    ReadPool& pool_;
    std::unique_ptr<Database> database_;
    absl::Status status_;
  };

  explicit ReadPool(absl::Duration read_budget) : read_budget_(read_budget) {}
  std::unique_ptr<Database> Take() WEFT_EXCLUDES(mutex_);
  void GiveBack(std::unique_ptr<Database> database) WEFT_EXCLUDES(mutex_);

  const absl::Duration read_budget_;
  Mutex mutex_;
  CondVar cv_;
  std::vector<std::unique_ptr<Database>> idle_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::sqlite
