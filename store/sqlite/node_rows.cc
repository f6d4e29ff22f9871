#include "store/sqlite/node_rows.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "store/sqlite/payload.h"

namespace weft::sqlite {

absl::Status PutNode(Database& database, const NodeRecord& record) {
  const absl::StatusOr<std::string> payload = Encode(record.node);
  if (!payload.ok()) return payload.status();
  return Query(database,
               "INSERT INTO node (node_id, boot_id, first_seen_time_ns, last_seen_time_ns, "
               "last_success_time_ns, clock_offset_ns, spool_lost_records, payload) "
               "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (node_id) DO UPDATE SET "
               "boot_id = excluded.boot_id, last_seen_time_ns = excluded.last_seen_time_ns, "
               "clock_offset_ns = excluded.clock_offset_ns, "
               "spool_lost_records = excluded.spool_lost_records, payload = excluded.payload",
               record.node.id, record.boot_id, record.first_seen, record.last_seen, record.last_success,
               record.clock_offset, record.spool_lost_records, Blob{*payload})
      .Run();
}

absl::Status RemoveNode(Database& database, absl::string_view node_id) {
  const absl::Status status = Query(database, "DELETE FROM node WHERE node_id = ?", node_id).Run();
  if (!status.ok() || database.changes() > 0) return status;
  return absl::NotFoundError(absl::StrCat("there is no node \"", node_id, "\""));
}

absl::StatusOr<std::vector<NodeRecord>> ListNodes(Database& database) {
  std::vector<NodeRecord> records;
  Query query(database,
              "SELECT payload, boot_id, first_seen_time_ns, last_seen_time_ns, last_success_time_ns, "
              "clock_offset_ns, spool_lost_records FROM node ORDER BY node_id");
  while (query.Next()) {
    NodeRecord record;
    if (const absl::Status status = Decode(query.Bytes(0), &record.node); !status.ok()) return status;
    record.boot_id = query.Text(1);
    record.first_seen = query.Time(2);
    record.last_seen = query.Time(3);
    record.last_success = query.Time(4);
    record.clock_offset = query.Duration(5);
    record.spool_lost_records = query.Unsigned(6);
    records.push_back(std::move(record));
  }
  if (!query.status().ok()) return query.status();
  return records;
}

absl::Status MoveLastSuccess(Database& database, absl::string_view node_id, absl::Time plan_time) {
  return Query(database,
               "UPDATE node SET last_success_time_ns = max(last_success_time_ns, ?2) WHERE node_id = ?1",
               node_id, plan_time)
      .Run();
}

}  // namespace weft::sqlite
