#include "store/sqlite/result_rows.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "store/sqlite/counter_rows.h"
#include "store/sqlite/node_rows.h"
#include "store/sqlite/payload.h"
#include "store/sqlite/run_rows.h"
#include "store/sqlite/stored_ranges.h"

namespace weft::sqlite {
namespace {

// The seat of a participant in a run.
struct Seat {
  int64_t run_key = 0;
  absl::Time plan_time;
  std::string node_id;  // empty: the run has no such rank
  bool taken = false;   // its result is stored: a spool that lost its state sends it again, under a new epoch
};

absl::StatusOr<std::optional<Seat>> FindSeat(Database& database, const Result& result) {
  Query query(database,
              "SELECT r.run_key, r.plan_time_ns, p.node_id, EXISTS (SELECT 1 FROM result AS s "
              "WHERE s.run_key = r.run_key AND s.rank = ?2) FROM run AS r LEFT JOIN participant AS p "
              "ON p.run_key = r.run_key AND p.rank = ?2 WHERE r.run_id = ?1",
              result.run_id, result.rank);
  if (query.Next()) return Seat{query.Int(0), query.Time(1), query.Text(2), query.Bool(3)};
  if (!query.status().ok()) return query.status();
  return std::nullopt;
}

// Stores the records of one append, one after the other.
class Appender {
 public:
  Appender(Database& database, const ResultAppend& append, ResultAppendOutcome* outcome)
      : database_(database), append_(append), outcome_(*outcome) {}

  absl::Status Append() {
    if (append_.records.empty()) return absl::OkStatus();
    if (const absl::Status status = Begin(); !status.ok()) return status;
    for (const ResultAppend::Record& record : append_.records) {
      if (const absl::Status status = Judge(record); !status.ok()) return status;
    }
    return outcome_.stored.empty() ? absl::OkStatus() : End();
  }

 private:
  absl::Status Begin() {
    uint64_t first = std::numeric_limits<uint64_t>::max();
    uint64_t last = 0;
    for (const ResultAppend::Record& record : append_.records) {
      first = std::min(first, record.sequence);
      last = std::max(last, record.sequence);
    }
    if (first == 0 || last >= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return absl::InvalidArgumentError(
          absl::StrCat("sequences of node ", append_.node_id, " must lie in 1 to 2^63 - 2"));
    }
    const absl::StatusOr<int64_t> last_id = ReadCounter(database_, "result");
    if (!last_id.ok()) return last_id.status();
    last_id_ = *last_id;
    return ranges_.Load(database_, append_.node_id, append_.epoch, static_cast<int64_t>(first),
                        static_cast<int64_t>(last));
  }

  absl::Status Judge(const ResultAppend::Record& record) {
    if (ranges_.Contains(static_cast<int64_t>(record.sequence))) {
      outcome_.duplicate.push_back(record.sequence);
      return absl::OkStatus();
    }
    const absl::StatusOr<std::optional<Seat>> seat = FindSeat(database_, record.result);
    if (!seat.ok()) return seat.status();
    if (!seat->has_value()) {
      outcome_.unknown_run.push_back(record.sequence);
      return absl::OkStatus();
    }
    if ((*seat)->node_id != append_.node_id || record.result.node_id != append_.node_id) {
      outcome_.wrong_node.push_back(record.sequence);
      return absl::OkStatus();
    }
    if ((*seat)->taken) {
      outcome_.duplicate.push_back(record.sequence);
      return absl::OkStatus();
    }
    return Insert(record, **seat);
  }

  absl::Status Insert(const ResultAppend::Record& record, const Seat& seat) {
    const Result& result = record.result;
    const absl::StatusOr<std::string> payload = Encode(result);
    if (!payload.ok()) return payload.status();
    const absl::Status status = Query(database_,
                                      "INSERT INTO result (result_id, run_key, node_id, rank, outcome, "
                                      "plan_time_ns, payload) VALUES (?, ?, ?, ?, ?, ?, ?)",
                                      ++last_id_, seat.run_key, append_.node_id, result.rank, result.outcome,
                                      seat.plan_time, Blob{*payload})
                                    .Run();
    if (!status.ok()) return status;
    if (result.outcome == Outcome::kOk) last_success_ = std::max(last_success_, seat.plan_time);
    ranges_.Add(static_cast<int64_t>(record.sequence));
    outcome_.stored.push_back(record.sequence);
    return absl::OkStatus();
  }

  absl::Status End() {
    absl::Status status = ranges_.Save(database_, append_.node_id, append_.epoch);
    if (status.ok()) status = RaiseCounter(database_, "result", last_id_);
    if (!status.ok() || last_success_ == absl::InfinitePast()) return status;
    return MoveLastSuccess(database_, append_.node_id, last_success_);
  }

  Database& database_;
  const ResultAppend& append_;
  ResultAppendOutcome& outcome_;
  StoredRanges ranges_;
  int64_t last_id_ = 0;
  absl::Time last_success_ = absl::InfinitePast();
};

// Columns that ReadRows wants, in its order.
#define WEFT_RESULT_COLUMNS                                                                            \
  "SELECT s.result_id, s.run_key, s.node_id, s.plan_time_ns, s.payload, r.run_id, r.probe, r.cohort, " \
  "r.round, r.in_maintenance FROM result AS s JOIN run AS r USING (run_key) "

using ParticipantCache = std::unordered_map<int64_t, std::vector<std::string>>;

absl::Status ReadRow(Database& database, Query& row, ParticipantCache& cache, StoredResult* stored) {
  const int64_t run_key = row.Int(1);
  auto participants = cache.find(run_key);
  if (participants == cache.end()) {
    absl::StatusOr<std::vector<std::string>> read = Participants(database, run_key);
    if (!read.ok()) return read.status();
    participants = cache.emplace(run_key, *std::move(read)).first;
  }
  if (const absl::Status status = Decode(row.Bytes(4), &stored->result); !status.ok()) return status;
  stored->id = row.Int(0);
  stored->result.node_id = row.Text(2);
  stored->plan_time = row.Time(3);
  stored->result.run_id = row.Text(5);
  stored->probe = row.Text(6);
  stored->cohort = row.Text(7);
  stored->round = row.Unsigned(8);
  stored->in_maintenance = row.Bool(9);
  stored->participants = participants->second;
  return absl::OkStatus();
}

absl::Status ReadRows(Database& database, Query& query, std::vector<StoredResult>* results) {
  ParticipantCache cache;
  while (query.Next()) {
    const absl::Status status = ReadRow(database, query, cache, &results->emplace_back());
    if (!status.ok()) return status;
  }
  return query.status();
}

absl::StatusOr<std::vector<StoredResult>> ReadAll(Database& database, Query& query) {
  std::vector<StoredResult> results;
  if (const absl::Status status = ReadRows(database, query, &results); !status.ok()) return status;
  return results;
}

}  // namespace

absl::Status AppendResults(Database& database, const ResultAppend& append, ResultAppendOutcome* outcome) {
  *outcome = ResultAppendOutcome();
  return Appender(database, append, outcome).Append();
}

absl::StatusOr<std::vector<StoredResult>> ReadResults(Database& database, int64_t after, int32_t limit) {
  Query query(database, WEFT_RESULT_COLUMNS "WHERE s.result_id > ? ORDER BY s.result_id LIMIT ?", after,
              std::max(limit, 0));
  return ReadAll(database, query);
}

absl::StatusOr<std::vector<StoredResult>> ResultsOfRuns(Database& database,
                                                        const std::vector<std::string>& run_ids) {
  std::vector<StoredResult> results;
  for (const std::string& run_id : run_ids) {
    Query query(database, WEFT_RESULT_COLUMNS "WHERE r.run_id = ? ORDER BY s.result_id", run_id);
    if (const absl::Status status = ReadRows(database, query, &results); !status.ok()) return status;
  }
  return results;
}

absl::StatusOr<std::vector<StoredResult>> NodeHistory(Database& database, absl::string_view node_id,
                                                      absl::Time since, const PageRequest& page) {
  if (page.before.empty()) {
    Query query(database,
                WEFT_RESULT_COLUMNS
                "WHERE s.node_id = ? AND s.plan_time_ns >= ? "
                "ORDER BY s.plan_time_ns DESC, s.result_id DESC LIMIT ?",
                node_id, since, RowsOf(page));
    return ReadAll(database, query);
  }
  int64_t before = 0;
  if (!absl::SimpleAtoi(page.before, &before)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", page.before, "\" is not a result id"));
  }
  Query query(database,
              WEFT_RESULT_COLUMNS
              "WHERE s.node_id = ?1 AND s.plan_time_ns >= ?2 AND (s.plan_time_ns, s.result_id) < "
              "(SELECT plan_time_ns, result_id FROM result WHERE result_id = ?3) "
              "ORDER BY s.plan_time_ns DESC, s.result_id DESC LIMIT ?4",
              node_id, since, before, RowsOf(page));
  return ReadAll(database, query);
}

}  // namespace weft::sqlite
