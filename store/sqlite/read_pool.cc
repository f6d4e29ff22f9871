#include "store/sqlite/read_pool.h"

#include "base/clock.h"

namespace weft::sqlite {

absl::StatusOr<std::unique_ptr<ReadPool>> ReadPool::Open(const ReadPoolOptions& options) {
  std::unique_ptr<ReadPool> pool(new ReadPool(options.read_budget));
  DatabaseOptions database_options = options.database;
  database_options.read_only = true;
  for (int i = 0; i < options.connections; ++i) {
    absl::StatusOr<std::unique_ptr<Database>> database = Database::Open(database_options);
    if (!database.ok()) return database.status();
    pool->GiveBack(*std::move(database));
  }
  return pool;
}

std::unique_ptr<Database> ReadPool::Take() {
  MutexLock lock(mutex_);
  while (idle_.empty()) cv_.Wait(mutex_);
  std::unique_ptr<Database> database = std::move(idle_.back());
  idle_.pop_back();
  return database;
}

void ReadPool::GiveBack(std::unique_ptr<Database> database) {
  MutexLock lock(mutex_);
  idle_.push_back(std::move(database));
  cv_.NotifyOne();
}

ReadPool::Lease::Lease(ReadPool& pool) : pool_(pool), database_(pool.Take()) {
  database_->set_deadline(Clock::Real().Monotonic() + pool.read_budget_);
  status_ = database_->Execute("BEGIN");
}

ReadPool::Lease::~Lease() {
  database_->set_deadline(absl::InfiniteDuration());
  if (database_->in_transaction()) database_->Execute("ROLLBACK").IgnoreError();
  pool_.GiveBack(std::move(database_));
}

}  // namespace weft::sqlite
