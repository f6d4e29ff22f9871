#include "store/sqlite/database.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"

namespace weft::sqlite {
namespace {

// Instructions of SQLite's virtual machine between two looks at the deadline: well under a millisecond.
constexpr int kInstructionsPerLook = 10000;

absl::StatusCode ConstraintCode(int extended) {
  switch (extended) {
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_ROWID:
      return absl::StatusCode::kAlreadyExists;
    case SQLITE_CONSTRAINT_FOREIGNKEY:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return absl::StatusCode::kInvalidArgument;
  }
}

absl::StatusCode CodeOf(int extended) {
  switch (extended & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_NOMEM:
    case SQLITE_CANTOPEN:
      return absl::StatusCode::kUnavailable;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::StatusCode::kDataLoss;
    case SQLITE_CONSTRAINT:
      return ConstraintCode(extended);
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return absl::StatusCode::kFailedPrecondition;
    case SQLITE_TOOBIG:
      return absl::StatusCode::kInvalidArgument;
    case SQLITE_INTERRUPT:
      return absl::StatusCode::kDeadlineExceeded;
    default:
      return absl::StatusCode::kInternal;
  }
}

absl::string_view AdviceFor(int extended) {
  switch (extended & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return "; another process holds the database, try again later";
    case SQLITE_FULL:
      return "; free space on its file system, writing goes on by itself";
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return "; stop the server, keep the file and restore a backup";
    case SQLITE_INTERRUPT:
      return "; ask for less at once";
    default:
      return "";
  }
}

std::string Setup(const DatabaseOptions& options) {
  // auto_vacuum works only before the first table, so it comes first; WAL is a property of the file.
  std::string sql = "PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL;";
  if (options.read_only) return absl::StrCat(sql, "PRAGMA query_only = ON;");
  return absl::StrCat(sql, "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;",
                      "PRAGMA journal_size_limit = 67108864; PRAGMA wal_autocheckpoint = 2000;");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const DatabaseOptions& options) {
  sqlite3* handle = nullptr;
  const int create = options.read_only ? 0 : SQLITE_OPEN_CREATE;
  // Readers open for writing too: a WAL needs its shared-memory file. query_only keeps them from writing.
  const int code = sqlite3_open_v2(options.path.c_str(), &handle,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | create, nullptr);
  if (handle == nullptr) return absl::UnavailableError("no memory for a database connection");
  std::unique_ptr<Database> database(new Database(handle, options.path));
  if (code != SQLITE_OK) return database->Error(code, "open");
  database->SetBusyBudget(options.busy_budget);
  if (const absl::Status status = database->Execute(Setup(options).c_str()); !status.ok()) return status;
  return database;
}

Database::Database(sqlite3* handle, std::string path) : handle_(handle), path_(std::move(path)) {
  sqlite3_extended_result_codes(handle_, 1);
  sqlite3_progress_handler(handle_, kInstructionsPerLook, &Database::PastDeadline, this);
}

Database::~Database() {
  for (const auto& [sql, statement] : idle_statements_) sqlite3_finalize(statement);
  sqlite3_close_v2(handle_);
}

int Database::PastDeadline(void* self) {
  const absl::Duration deadline = static_cast<Database*>(self)->deadline_;
  return deadline != absl::InfiniteDuration() && Clock::Real().Monotonic() > deadline ? 1 : 0;
}

absl::Status Database::Execute(const char* sql) {
  const int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code, sql);
}

void Database::SetBusyBudget(absl::Duration budget) {
  sqlite3_busy_timeout(handle_, static_cast<int>(absl::ToInt64Milliseconds(budget)));
}

absl::Status Database::Error(int code, absl::string_view sql) const {
  return absl::Status(CodeOf(code), absl::StrCat("database ", path_, ": ", sqlite3_errmsg(handle_), " (code ",
                                                 code, ") in \"", sql.substr(0, 60), "\"", AdviceFor(code)));
}

sqlite3_stmt* Database::TakeStatement(const char* sql, int* code) {
  if (const auto found = idle_statements_.find(sql); found != idle_statements_.end()) {
    sqlite3_stmt* const statement = std::exchange(found->second, nullptr);
    if (statement != nullptr) return statement;
  }
  sqlite3_stmt* statement = nullptr;
  *code = sqlite3_prepare_v3(handle_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  return statement;
}

void Database::GiveBackStatement(const char* sql, sqlite3_stmt* statement) {
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  sqlite3_stmt*& place = idle_statements_[sql];
  if (place != nullptr) sqlite3_finalize(place);  // the same SQL was in use twice at once
  place = statement;
}

void Query::Prepare() {
  int code = SQLITE_OK;
  statement_ = database_.TakeStatement(sql_, &code);
  Check(code);
}

Query::~Query() {
  if (statement_ != nullptr) database_.GiveBackStatement(sql_, statement_);
}

void Query::Check(int code) {
  if (code != SQLITE_OK && status_.ok()) status_ = database_.Error(code, sql_);
}

bool Query::Next() {
  if (!status_.ok()) return false;
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) Check(code);
  return false;
}

absl::Status Query::Run() {
  while (Next()) {
  }
  return status_;
}

absl::Time Query::Time(int column) {
  const int64_t ns = Int(column);
  if (ns == std::numeric_limits<int64_t>::max()) return absl::InfiniteFuture();
  if (ns == std::numeric_limits<int64_t>::min()) return absl::InfinitePast();
  return absl::FromUnixNanos(ns);
}

absl::string_view Query::Bytes(int column) {
  const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  const auto size = static_cast<size_t>(sqlite3_column_bytes(statement_, column));
  return data == nullptr ? absl::string_view() : absl::string_view(data, size);
}

// Infinite and very distant times become the ends of the integer range.
void Query::Bind(absl::Time time) { BindNumber(absl::ToUnixNanos(time)); }
void Query::Bind(absl::Duration duration) { BindNumber(absl::ToInt64Nanoseconds(duration)); }

void Query::BindNumber(int64_t number) {
  if (status_.ok()) Check(sqlite3_bind_int64(statement_, ++bound_, number));
}

void Query::Bind(absl::string_view text) {
  if (!status_.ok()) return;
  // A null pointer would bind NULL.
  const char* data = text.data() == nullptr ? "" : text.data();
  Check(sqlite3_bind_text64(statement_, ++bound_, data, text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

void Query::Bind(Blob blob) {
  if (!status_.ok()) return;
  const char* data = blob.bytes.data() == nullptr ? "" : blob.bytes.data();
  Check(sqlite3_bind_blob64(statement_, ++bound_, data, blob.bytes.size(), SQLITE_TRANSIENT));
}

void Query::Bind(std::nullptr_t) {
  if (status_.ok()) Check(sqlite3_bind_null(statement_, ++bound_));
}

}  // namespace weft::sqlite
