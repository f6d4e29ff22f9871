#include "store/sqlite/run_rows.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/sqlite/counter_rows.h"
#include "store/sqlite/payload.h"

namespace weft::sqlite {
namespace {

absl::Status PutRound(Database& database, const Run& run) {
  const absl::StatusOr<uint64_t> last = LastRound(database, run.spec.name, run.cohort);
  if (!last.ok()) return last.status();
  if (run.round <= *last) return absl::OkStatus();
  const absl::Status status = Query(database,
                                    "INSERT INTO last_round (probe, cohort, round) VALUES (?, ?, ?) "
                                    "ON CONFLICT (probe, cohort) DO UPDATE SET round = excluded.round",
                                    run.spec.name, run.cohort, run.round)
                                  .Run();
  return status.ok() ? AddToCounter(database, "round", 1) : status;
}

absl::Status PutParticipants(Database& database, int64_t run_key, const std::vector<std::string>& node_ids) {
  for (size_t rank = 0; rank < node_ids.size(); ++rank) {
    const absl::Status status =
        Query(database, "INSERT INTO participant (run_key, rank, node_id) VALUES (?, ?, ?)", run_key, rank,
              node_ids[rank])
            .Run();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status PutRun(Database& database, const Run& run) {
  if (run.round > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return absl::InvalidArgumentError(absl::StrCat("run ", run.id, " has round ", run.round));
  }
  const absl::StatusOr<std::string> payload = Encode(run.spec);
  if (!payload.ok()) return payload.status();
  absl::Status status =
      Query(database,
            "INSERT INTO run (run_id, probe, cohort, round, plan_time_ns, end_time_ns, state, "
            "in_maintenance, detail, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            run.id, run.spec.name, run.cohort, run.round, run.plan_time, run.end_time, run.state,
            run.in_maintenance, run.detail, Blob{*payload})
          .Run();
  if (!status.ok()) return status;
  status = PutParticipants(database, sqlite3_last_insert_rowid(database.handle()), run.participants);
  return status.ok() ? PutRound(database, run) : status;
}

constexpr char kAllRuns[] =
    "SELECT run_key, run_id, payload, cohort, round, plan_time_ns, end_time_ns, state, detail, "
    "in_maintenance "
    "FROM run WHERE (?1 = '' OR run_key < (SELECT run_key FROM run WHERE run_id = ?1)) "
    "AND (?3 = '' OR probe = ?3) AND plan_time_ns >= ?4 ORDER BY run_key DESC LIMIT ?2";
constexpr char kRunsOfNode[] =
    "SELECT r.run_key, r.run_id, r.payload, r.cohort, r.round, r.plan_time_ns, r.end_time_ns, r.state, "
    "r.detail, r.in_maintenance FROM participant AS p JOIN run AS r USING (run_key) "
    "WHERE p.node_id = ?5 AND (?1 = '' OR p.run_key < (SELECT run_key FROM run WHERE run_id = ?1)) "
    "AND (?3 = '' OR r.probe = ?3) AND r.plan_time_ns >= ?4 "
    "GROUP BY p.run_key ORDER BY p.run_key DESC LIMIT ?2";
constexpr char kOneRun[] =
    "SELECT run_key, run_id, payload, cohort, round, plan_time_ns, end_time_ns, state, detail, "
    "in_maintenance FROM run WHERE run_id = ?";
constexpr char kActiveRuns[] =
    "SELECT run_key, run_id, payload, cohort, round, plan_time_ns, end_time_ns, state, detail, "
    "in_maintenance "
    "FROM run WHERE state = 1 ORDER BY run_key";

absl::Status ReadRun(Database& database, Query& row, Run* run) {
  absl::StatusOr<std::vector<std::string>> participants = Participants(database, row.Int(0));
  if (!participants.ok()) return participants.status();
  run->id = row.Text(1);
  run->participants = *std::move(participants);
  run->cohort = row.Text(3);
  run->round = row.Unsigned(4);
  run->plan_time = row.Time(5);
  run->end_time = row.Time(6);
  run->state = static_cast<RunState>(row.Int(7));
  run->detail = row.Text(8);
  run->in_maintenance = row.Bool(9);
  return Decode(row.Bytes(2), &run->spec);
}

absl::StatusOr<std::vector<Run>> ReadRuns(Database& database, Query& query) {
  std::vector<Run> runs;
  while (query.Next()) {
    if (const absl::Status status = ReadRun(database, query, &runs.emplace_back()); !status.ok())
      return status;
  }
  if (!query.status().ok()) return query.status();
  return runs;
}

}  // namespace

int64_t RowsOf(const PageRequest& page) { return std::clamp<int64_t>(page.size, 1, 10000); }

absl::Status PutRuns(Database& database, const std::vector<Run>& runs) {
  for (const Run& run : runs) {
    if (const absl::Status status = PutRun(database, run); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status FinishRuns(Database& database, const std::vector<Run>& runs) {
  for (const Run& run : runs) {
    const absl::Status status = Query(database,
                                      "UPDATE run SET state = ?2, end_time_ns = ?3, detail = ?4 "
                                      "WHERE run_id = ?1 AND state = 1",
                                      run.id, run.state, run.end_time, run.detail)
                                    .Run();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Run>> ListRuns(Database& database, const Store::RunFilter& filter,
                                          const PageRequest& page) {
  if (filter.node_id.empty()) {
    Query query(database, kAllRuns, page.before, RowsOf(page), filter.probe, filter.since);
    return ReadRuns(database, query);
  }
  Query query(database, kRunsOfNode, page.before, RowsOf(page), filter.probe, filter.since, filter.node_id);
  return ReadRuns(database, query);
}

absl::StatusOr<Run> GetRun(Database& database, absl::string_view id) {
  Query query(database, kOneRun, id);
  absl::StatusOr<std::vector<Run>> found = ReadRuns(database, query);
  if (!found.ok()) return found.status();
  if (found->empty()) return absl::NotFoundError(absl::StrCat("there is no run \"", id, "\""));
  return std::move(found->front());
}

absl::StatusOr<std::vector<Run>> ListActiveRuns(Database& database) {
  Query query(database, kActiveRuns);
  return ReadRuns(database, query);
}

absl::StatusOr<uint64_t> LastRound(Database& database, absl::string_view probe, absl::string_view cohort) {
  Query query(database, "SELECT round FROM last_round WHERE probe = ? AND cohort = ?", probe, cohort);
  if (query.Next()) return query.Unsigned(0);
  if (!query.status().ok()) return query.status();
  return 0;
}

absl::StatusOr<std::vector<std::string>> Participants(Database& database, int64_t run_key) {
  std::vector<std::string> node_ids;
  Query query(database, "SELECT node_id FROM participant WHERE run_key = ? ORDER BY rank", run_key);
  while (query.Next()) node_ids.push_back(query.Text(0));
  if (!query.status().ok()) return query.status();
  return node_ids;
}

}  // namespace weft::sqlite
