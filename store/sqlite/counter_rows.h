// Rows of `counter`: "result" (stored so far; also the last result id), "round" (begun so far),
// "detection_cursor". Each function runs within the caller's transaction.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/sqlite/database.h"

namespace weft::sqlite {

absl::StatusOr<int64_t> ReadCounter(Database& database, absl::string_view name);
absl::Status AddToCounter(Database& database, absl::string_view name, int64_t by);
// Never moves back.
absl::Status RaiseCounter(Database& database, absl::string_view name, int64_t to);

}  // namespace weft::sqlite
