// Rows of `run`, `participant` and `last_round`. Each function runs within the caller's transaction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "fleet/probe.h"
#include "store/sqlite/database.h"
#include "store/store.h"

namespace weft::sqlite {

absl::Status PutRuns(Database& database, const std::vector<Run>& runs);
absl::Status FinishRuns(Database& database, const std::vector<Run>& runs);
absl::StatusOr<std::vector<Run>> ListRuns(Database& database, const Store::RunFilter& filter,
                                          const PageRequest& page);
absl::StatusOr<Run> GetRun(Database& database, absl::string_view id);
absl::StatusOr<std::vector<Run>> ListActiveRuns(Database& database);
absl::StatusOr<uint64_t> LastRound(Database& database, absl::string_view probe, absl::string_view cohort);
// Node ids by rank.
absl::StatusOr<std::vector<std::string>> Participants(Database& database, int64_t run_key);
// Rows to ask for: at least one, at most 10,000.
int64_t RowsOf(const PageRequest& page);

}  // namespace weft::sqlite
