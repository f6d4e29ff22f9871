// Rows of `maintenance_window`. Each function runs within the caller's transaction.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fleet/maintenance.h"
#include "store/sqlite/database.h"

namespace weft::sqlite {

// The window as stored: another one if its request came before.
absl::StatusOr<MaintenanceWindow> CreateWindow(Database& database, const MaintenanceWindow& window);
absl::Status UpdateWindow(Database& database, const MaintenanceWindow& window);
absl::StatusOr<std::vector<MaintenanceWindow>> ListWindows(Database& database);

}  // namespace weft::sqlite
