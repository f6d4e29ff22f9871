// Brings a database to this program's schema.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "store/sqlite/database.h"

namespace weft::sqlite {

// SQL of migrations/NNNN_*.sql in order; element i leads to schema version i + 1.
const std::vector<absl::string_view>& Migrations();

// Runs the migrations that the database lacks, each in a transaction of its own that also moves
// `PRAGMA user_version`. kFailedPrecondition, with nothing changed, when the database has a newer schema than
// this program or is another program's.
absl::Status Migrate(Database& database);

}  // namespace weft::sqlite
