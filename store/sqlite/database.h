// One SQLite connection and its statements, with errors as absl::Status. One thread at a time.
//
// Codes: kUnavailable busy, disk full, I/O error, out of memory; kDataLoss damaged or not a database;
// kAlreadyExists unique constraint; kFailedPrecondition foreign key or read-only; kInvalidArgument other
// constraints; kDeadlineExceeded stopped by the deadline; kInternal the rest.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace weft::sqlite {

struct DatabaseOptions {
  std::string path;
  absl::Duration busy_budget = absl::Seconds(5);  // longest wait for a lock
  bool read_only = false;                         // refuses writes; the file must exist
};

class Database {
 public:
  // Creates the file if it is missing and may be written. Turns on WAL, synchronous=FULL, foreign keys.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const DatabaseOptions& options);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Statements without parameters, separated by semicolons; rows are thrown away.
  absl::Status Execute(const char* sql);
  // False also after an error that rolled the transaction back by itself (disk full, I/O error).
  bool in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }
  // Rows changed by the last INSERT, UPDATE or DELETE.
  int64_t changes() const { return sqlite3_changes64(handle_); }
  // Statements that run past this fail with kDeadlineExceeded. Monotonic time of Clock::Real().
  void set_deadline(absl::Duration monotonic) { deadline_ = monotonic; }
  void SetBusyBudget(absl::Duration budget);
  const std::string& path() const { return path_; }
  sqlite3* handle() { return handle_; }

 private:
  friend class Query;

  Database(sqlite3* handle, std::string path);
  absl::Status Error(int code, absl::string_view sql) const;
  sqlite3_stmt* TakeStatement(const char* sql, int* code);
  void GiveBackStatement(const char* sql, sqlite3_stmt* statement);
  static int PastDeadline(void* self);

  sqlite3* const handle_;
  const std::string path_;
  absl::Duration deadline_ = absl::InfiniteDuration();
  std::unordered_map<std::string, sqlite3_stmt*> idle_statements_;  // by SQL
};

// Bytes, as opposed to text.
struct Blob {
  absl::string_view bytes;
};

// One execution of a prepared statement, e.g.
//   Query query(database, "SELECT a FROM t WHERE b = ?", b);
//   while (query.Next()) use(query.Text(0));
//   return query.status();
// Always reset when it goes out of scope. Arguments are copied.
class Query {
 public:
  template <typename... Args>
  Query(Database& database, const char* sql, const Args&... args) : database_(database), sql_(sql) {
    Prepare();
    (Bind(args), ...);
  }
  ~Query();
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  // To the next row. False at the end and on an error.
  bool Next();
  // To the end.
  absl::Status Run();
  const absl::Status& status() const { return status_; }

  // Columns of the current row, from 0.
  int64_t Int(int column) { return sqlite3_column_int64(statement_, column); }
  uint64_t Unsigned(int column) { return static_cast<uint64_t>(Int(column)); }
  bool Bool(int column) { return Int(column) != 0; }
  absl::Time Time(int column);
  absl::Duration Duration(int column) { return absl::Nanoseconds(Int(column)); }
  // Valid until the next Next().
  absl::string_view Bytes(int column);
  std::string Text(int column) { return std::string(Bytes(column)); }

 private:
  void Prepare();
  void Check(int code);
  void Bind(absl::Time time);
  void Bind(absl::Duration duration);
  void Bind(absl::string_view text);
  void Bind(const std::string& text) { Bind(absl::string_view(text)); }
  void Bind(const char* text) { Bind(absl::string_view(text)); }
  void Bind(Blob blob);
  void Bind(std::nullptr_t);
  void BindNumber(int64_t number);
  template <typename T, typename = std::enable_if_t<std::is_integral_v<T> || std::is_enum_v<T>>>
  void Bind(T number) {
    BindNumber(static_cast<int64_t>(number));
  }

  Database& database_;
  const char* const sql_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
  absl::Status status_;
};

}  // namespace weft::sqlite
