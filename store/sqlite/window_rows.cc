#include "store/sqlite/window_rows.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/sqlite/payload.h"

namespace weft::sqlite {
namespace {

// What a client asks for, without what the server adds or changes later.
absl::StatusOr<std::string> EncodeRequest(const MaintenanceWindow& window) {
  MaintenanceWindow request;
  request.matchers = window.matchers;
  request.schedule = window.schedule;
  request.reason = window.reason;
  request.created_by = window.created_by;
  return Encode(request);
}

absl::Status ReadWindow(Query& row, MaintenanceWindow* window) {
  if (const absl::Status status = Decode(row.Bytes(0), window); !status.ok()) return status;
  window->request_id = row.Text(1);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<MaintenanceWindow>> FindRequest(Database& database,
                                                             const std::string& request_id,
                                                             const std::string& request) {
  if (request_id.empty()) return std::nullopt;
  Query query(database,
              "SELECT payload, request_id, request_payload FROM maintenance_window WHERE request_id = ?",
              request_id);
  if (!query.Next()) {
    if (!query.status().ok()) return query.status();
    return std::nullopt;
  }
  if (query.Bytes(2) != request) {
    return absl::AlreadyExistsError(
        absl::StrCat("request id \"", request_id, "\" was used for another window; choose a new one"));
  }
  MaintenanceWindow window;
  if (const absl::Status status = ReadWindow(query, &window); !status.ok()) return status;
  return window;
}

absl::Status InsertWindow(Database& database, const MaintenanceWindow& window, const std::string& request) {
  const absl::StatusOr<std::string> payload = Encode(window);
  if (!payload.ok()) return payload.status();
  return Query(database,
               "INSERT INTO maintenance_window (window_id, request_id, request_payload, revision, "
               "create_time_ns, ended_time_ns, payload) VALUES (?, nullif(?, ''), ?, ?, ?, ?, ?)",
               window.id, window.request_id, Blob{request}, window.revision, window.create_time,
               window.ended_time, Blob{*payload})
      .Run();
}

absl::StatusOr<uint64_t> Revision(Database& database, const std::string& id) {
  Query query(database, "SELECT revision FROM maintenance_window WHERE window_id = ?", id);
  if (query.Next()) return query.Unsigned(0);
  if (!query.status().ok()) return query.status();
  return absl::NotFoundError(absl::StrCat("there is no maintenance window \"", id, "\""));
}

}  // namespace

absl::StatusOr<MaintenanceWindow> CreateWindow(Database& database, const MaintenanceWindow& window) {
  const absl::StatusOr<std::string> request = EncodeRequest(window);
  if (!request.ok()) return request.status();
  absl::StatusOr<std::optional<MaintenanceWindow>> before =
      FindRequest(database, window.request_id, *request);
  if (!before.ok()) return before.status();
  if (before->has_value()) return **std::move(before);
  if (const absl::Status status = InsertWindow(database, window, *request); !status.ok()) return status;
  return window;
}

absl::Status UpdateWindow(Database& database, const MaintenanceWindow& window) {
  const absl::StatusOr<uint64_t> revision = Revision(database, window.id);
  if (!revision.ok()) return revision.status();
  if (*revision + 1 != window.revision) {
    return absl::AbortedError(absl::StrCat("maintenance window ", window.id, " is at revision ", *revision,
                                           ", the change was made for ", window.revision - 1,
                                           "; read it again"));
  }
  const absl::StatusOr<std::string> payload = Encode(window);
  if (!payload.ok()) return payload.status();
  return Query(database,
               "UPDATE maintenance_window SET revision = ?2, create_time_ns = ?3, ended_time_ns = ?4, "
               "payload = ?5 WHERE window_id = ?1",
               window.id, window.revision, window.create_time, window.ended_time, Blob{*payload})
      .Run();
}

absl::StatusOr<std::vector<MaintenanceWindow>> ListWindows(Database& database) {
  std::vector<MaintenanceWindow> windows;
  Query query(database, "SELECT payload, request_id FROM maintenance_window ORDER BY window_key DESC");
  while (query.Next()) {
    if (const absl::Status status = ReadWindow(query, &windows.emplace_back()); !status.ok()) return status;
  }
  if (!query.status().ok()) return query.status();
  return windows;
}

}  // namespace weft::sqlite
