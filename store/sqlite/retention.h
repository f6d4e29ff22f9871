// Deletes what is too old to keep, in bounded steps. Runs within the caller's transaction.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "store/sqlite/database.h"

namespace weft::sqlite {

// About `max_rows` rows at most: a run goes together with its results. Returns how many went.
absl::StatusOr<uint64_t> DeleteOlderThan(Database& database, absl::Time before, int32_t max_rows);

}  // namespace weft::sqlite
