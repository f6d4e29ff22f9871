// Rows of `node`. Each function runs within the caller's transaction.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fleet/node.h"
#include "store/sqlite/database.h"

namespace weft::sqlite {

absl::Status PutNode(Database& database, const NodeRecord& record);
absl::Status RemoveNode(Database& database, absl::string_view node_id);
absl::StatusOr<std::vector<NodeRecord>> ListNodes(Database& database);
// Moves last_success forward, never back; nodes that are not in the store are left out.
absl::Status MoveLastSuccess(Database& database, absl::string_view node_id, absl::Time plan_time);

}  // namespace weft::sqlite
