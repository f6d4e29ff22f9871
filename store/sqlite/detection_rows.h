// Rows of `detector_state`, `episode` and what hangs on it. Each function runs within the caller's
// transaction.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "fleet/finding.h"
#include "store/sqlite/database.h"
#include "store/store.h"

namespace weft::sqlite {

absl::Status CommitDetection(Database& database, const DetectionCommit& commit);
absl::StatusOr<std::vector<DetectorState>> LoadDetectorStates(Database& database);
absl::StatusOr<std::vector<Episode>> OpenEpisodes(Database& database);
absl::StatusOr<std::vector<Episode>> ListEpisodes(Database& database, const Store::EpisodeFilter& filter,
                                                  const PageRequest& page);
absl::StatusOr<Episode> GetEpisode(Database& database, absl::string_view id);

}  // namespace weft::sqlite
