#include "store/sqlite/counter_rows.h"

#include "absl/strings/str_cat.h"

namespace weft::sqlite {

absl::StatusOr<int64_t> ReadCounter(Database& database, absl::string_view name) {
  Query query(database, "SELECT value FROM counter WHERE name = ?", name);
  if (query.Next()) return query.Int(0);
  if (!query.status().ok()) return query.status();
  return absl::DataLossError(absl::StrCat("database ", database.path(), " lost its counter ", name));
}

absl::Status AddToCounter(Database& database, absl::string_view name, int64_t by) {
  return Query(database, "UPDATE counter SET value = value + ?2 WHERE name = ?1", name, by).Run();
}

absl::Status RaiseCounter(Database& database, absl::string_view name, int64_t to) {
  return Query(database, "UPDATE counter SET value = max(value, ?2) WHERE name = ?1", name, to).Run();
}

}  // namespace weft::sqlite
