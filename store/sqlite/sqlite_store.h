// The Store on one SQLite file: WAL, synchronous=FULL, one writer thread with group commit, a few reading
// connections.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "store/store.h"

namespace weft {

struct SqliteStoreOptions {
  std::string path;                               // made if missing; its folder exists; local file system
  size_t max_queued_writes = 4096;                // AppendResults calls that may wait
  absl::Duration busy_budget = absl::Seconds(5);  // longest wait for another process's lock
  absl::Duration read_budget = absl::Seconds(5);  // a read that takes longer fails with kDeadlineExceeded
  int readers = 2;                                // reads that may run at once, at least 1
  uint64_t max_bytes = 0;                         // the database file grows no further; 0: no limit
};

// Opens, checks and migrates the database. kDataLoss: damaged, or not a database. kFailedPrecondition: made
// by a newer program or by another one. kUnavailable: cannot be opened or is locked.
absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(const SqliteStoreOptions& options);

}  // namespace weft
