#include "store/sqlite/retention.h"

#include <algorithm>
#include <vector>

#include "store/sqlite/counter_rows.h"

namespace weft::sqlite {
namespace {

// Runs that may go: nobody's evidence, and detection has read all of their results.
absl::StatusOr<std::vector<int64_t>> OldRuns(Database& database, absl::Time before, int64_t limit) {
  const absl::StatusOr<int64_t> cursor = ReadCounter(database, "detection_cursor");
  if (!cursor.ok()) return cursor.status();
  std::vector<int64_t> keys;
  Query query(database,
              "SELECT run_key FROM run WHERE plan_time_ns < ?1 "
              "AND NOT EXISTS (SELECT 1 FROM open_evidence AS e WHERE e.run_id = run.run_id) "
              "AND NOT EXISTS (SELECT 1 FROM result AS s WHERE s.run_key = run.run_key AND s.result_id > ?2) "
              "ORDER BY plan_time_ns LIMIT ?3",
              before, *cursor, limit);
  while (query.Next()) keys.push_back(query.Int(0));
  if (!query.status().ok()) return query.status();
  return keys;
}

// Rows deleted by a statement with the arguments.
template <typename... Args>
absl::Status Delete(Database& database, uint64_t* deleted, const char* sql, const Args&... args) {
  const absl::Status status = Query(database, sql, args...).Run();
  if (status.ok()) *deleted += static_cast<uint64_t>(database.changes());
  return status;
}

absl::Status DeleteRuns(Database& database, absl::Time before, uint64_t limit, uint64_t* deleted) {
  const absl::StatusOr<std::vector<int64_t>> keys = OldRuns(database, before, static_cast<int64_t>(limit));
  if (!keys.ok()) return keys.status();
  for (const int64_t key : *keys) {
    if (*deleted >= limit) return absl::OkStatus();
    absl::Status status = Delete(database, deleted, "DELETE FROM result WHERE run_key = ?", key);
    if (status.ok()) status = Delete(database, deleted, "DELETE FROM run WHERE run_key = ?", key);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status DeleteDeliveries(Database& database, absl::Time before, uint64_t limit, uint64_t* deleted) {
  if (*deleted >= limit) return absl::OkStatus();
  return Delete(
      database, deleted,
      "DELETE FROM delivery WHERE delivery_key IN (SELECT delivery_key FROM delivery AS d JOIN episode "
      "AS e USING (episode_id) WHERE d.state <> 1 AND d.create_time_ns < ?1 AND e.resolve_time_ns < ?1 "
      "LIMIT ?2)",
      before, limit - *deleted);
}

absl::Status DeleteEpisodes(Database& database, absl::Time before, uint64_t limit, uint64_t* deleted) {
  if (*deleted >= limit) return absl::OkStatus();
  return Delete(database, deleted,
                "DELETE FROM episode WHERE episode_id IN (SELECT episode_id FROM episode AS e WHERE "
                "resolve_time_ns < ?1 AND NOT EXISTS (SELECT 1 FROM delivery AS d WHERE d.episode_id = "
                "e.episode_id) LIMIT ?2)",
                before, limit - *deleted);
}

}  // namespace

absl::StatusOr<uint64_t> DeleteOlderThan(Database& database, absl::Time before, int32_t max_rows) {
  const auto limit = static_cast<uint64_t>(std::max(max_rows, 1));
  uint64_t deleted = 0;
  absl::Status status = DeleteRuns(database, before, limit, &deleted);
  if (status.ok()) status = DeleteDeliveries(database, before, limit, &deleted);
  if (status.ok()) status = DeleteEpisodes(database, before, limit, &deleted);
  if (!status.ok()) return status;
  return deleted;
}

}  // namespace weft::sqlite
