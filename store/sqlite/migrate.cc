#include "store/sqlite/migrate.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace weft::sqlite {
namespace {

// PRAGMA application_id: "WEFT".
constexpr int64_t kApplicationId = 0x57454654;

absl::StatusOr<int64_t> OneNumber(Database& database, const char* sql) {
  Query query(database, sql);
  if (!query.Next()) return query.status().ok() ? absl::InternalError(sql) : query.status();
  return query.Int(0);
}

absl::Status CheckOwner(Database& database) {
  const absl::StatusOr<int64_t> id = OneNumber(database, "PRAGMA application_id");
  if (!id.ok()) return id.status();
  if (*id == kApplicationId) return absl::OkStatus();
  const absl::StatusOr<int64_t> tables = OneNumber(database, "SELECT count(*) FROM sqlite_schema");
  if (!tables.ok()) return tables.status();
  if (*id == 0 && *tables == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(database.path(), " is a database of another program; choose another file"));
}

absl::Status Apply(Database& database, int64_t version) {
  const std::string sql = absl::StrCat("BEGIN IMMEDIATE;\n", Migrations()[static_cast<size_t>(version - 1)],
                                       "\nPRAGMA application_id = ", kApplicationId,
                                       "; PRAGMA user_version = ", version, "; COMMIT");
  const absl::Status status = database.Execute(sql.c_str());
  if (!status.ok() && database.in_transaction()) database.Execute("ROLLBACK").IgnoreError();
  return status;
}

}  // namespace

absl::Status Migrate(Database& database) {
  if (const absl::Status owner = CheckOwner(database); !owner.ok()) return owner;
  const absl::StatusOr<int64_t> version = OneNumber(database, "PRAGMA user_version");
  if (!version.ok()) return version.status();
  const auto newest = static_cast<int64_t>(Migrations().size());
  if (*version > newest) {
    return absl::FailedPreconditionError(absl::StrCat(
        database.path(), " has schema version ", *version, ", this program knows versions up to ", newest,
        "; run the newer program that made it, or restore a backup"));
  }
  for (int64_t next = *version + 1; next <= newest; ++next) {
    if (const absl::Status status = Apply(database, next); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace weft::sqlite
