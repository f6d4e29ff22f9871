// Rows of `delivery`, the outbox. Each function runs within the caller's transaction.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "fleet/finding.h"
#include "store/sqlite/database.h"
#include "store/store.h"

namespace weft::sqlite {

absl::Status InsertDeliveries(Database& database, const std::vector<Delivery>& deliveries);
// Those of the ids that are pending become dropped.
absl::Status DropDeliveries(Database& database, const std::vector<std::string>& ids);
absl::StatusOr<std::vector<Delivery>> PendingDeliveries(Database& database);
absl::Status UpdateDelivery(Database& database, const Delivery& delivery);
absl::StatusOr<std::vector<Delivery>> ListDeliveries(Database& database, absl::string_view episode_id,
                                                     const PageRequest& page);

}  // namespace weft::sqlite
