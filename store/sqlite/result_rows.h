// Rows of `result` and `stored_range`. Each function runs within the caller's transaction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "fleet/probe.h"
#include "store/sqlite/database.h"
#include "store/store.h"

namespace weft::sqlite {

absl::Status AppendResults(Database& database, const ResultAppend& append, ResultAppendOutcome* outcome);
absl::StatusOr<std::vector<StoredResult>> ReadResults(Database& database, int64_t after, int32_t limit);
absl::StatusOr<std::vector<StoredResult>> ResultsOfRuns(Database& database,
                                                        const std::vector<std::string>& run_ids);
absl::StatusOr<std::vector<StoredResult>> NodeHistory(Database& database, absl::string_view node_id,
                                                      absl::Time since, const PageRequest& page);

}  // namespace weft::sqlite
