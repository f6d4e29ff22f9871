#include "store/sqlite/delivery_rows.h"

#include "absl/strings/str_cat.h"
#include "store/sqlite/run_rows.h"

namespace weft::sqlite {
namespace {

absl::Status InsertDelivery(Database& database, const Delivery& d) {
  return Query(
             database,
             "INSERT INTO delivery (delivery_id, receiver, episode_id, action, sequence, state, attempts, "
             "outcome_unknown, not_before_time_ns, create_time_ns, deliver_time_ns, last_status, last_error, "
             "body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
             d.id, d.receiver, d.episode_id, d.action, d.sequence, d.state, d.attempts, d.outcome_unknown,
             d.not_before, d.create_time, d.deliver_time, d.last_status, d.last_error, Blob{d.body})
      .Run();
}

#define WEFT_DELIVERY_COLUMNS                                                                            \
  "SELECT delivery_id, receiver, episode_id, action, sequence, body, state, attempts, outcome_unknown, " \
  "not_before_time_ns, create_time_ns, deliver_time_ns, last_status, last_error FROM delivery "

Delivery ReadDelivery(Query& row) {
  Delivery d;
  d.id = row.Text(0);
  d.receiver = row.Text(1);
  d.episode_id = row.Text(2);
  d.action = static_cast<DeliveryAction>(row.Int(3));
  d.sequence = static_cast<uint32_t>(row.Int(4));
  d.body = row.Text(5);
  d.state = static_cast<DeliveryState>(row.Int(6));
  d.attempts = static_cast<uint32_t>(row.Int(7));
  d.outcome_unknown = row.Bool(8);
  d.not_before = row.Time(9);
  d.create_time = row.Time(10);
  d.deliver_time = row.Time(11);
  d.last_status = static_cast<int32_t>(row.Int(12));
  d.last_error = row.Text(13);
  return d;
}

absl::StatusOr<std::vector<Delivery>> ReadDeliveries(Query& query) {
  std::vector<Delivery> deliveries;
  while (query.Next()) deliveries.push_back(ReadDelivery(query));
  if (!query.status().ok()) return query.status();
  return deliveries;
}

}  // namespace

absl::Status InsertDeliveries(Database& database, const std::vector<Delivery>& deliveries) {
  for (const Delivery& delivery : deliveries) {
    if (const absl::Status status = InsertDelivery(database, delivery); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status DropDeliveries(Database& database, const std::vector<std::string>& ids) {
  for (const std::string& id : ids) {
    const absl::Status status =
        Query(database, "UPDATE delivery SET state = ?2 WHERE delivery_id = ?1 AND state = 1", id,
              DeliveryState::kDropped)
            .Run();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Delivery>> PendingDeliveries(Database& database) {
  Query query(database, WEFT_DELIVERY_COLUMNS "WHERE state = 1 ORDER BY receiver, episode_id, sequence");
  return ReadDeliveries(query);
}

absl::Status UpdateDelivery(Database& database, const Delivery& d) {
  const absl::Status status = Query(database,
                                    "UPDATE delivery SET state = ?2, attempts = ?3, outcome_unknown = ?4, "
                                    "not_before_time_ns = ?5, deliver_time_ns = ?6, last_status = ?7, "
                                    "last_error = ?8 WHERE delivery_id = ?1 AND state = 1",
                                    d.id, d.state, d.attempts, d.outcome_unknown, d.not_before,
                                    d.deliver_time, d.last_status, d.last_error)
                                  .Run();
  if (!status.ok() || database.changes() == 1) return status;
  return absl::NotFoundError(absl::StrCat("there is no pending delivery \"", d.id, "\""));
}

absl::StatusOr<std::vector<Delivery>> ListDeliveries(Database& database, absl::string_view episode_id,
                                                     const PageRequest& page) {
  Query query(database,
              WEFT_DELIVERY_COLUMNS
              "WHERE (?1 = '' OR episode_id = ?1) AND (?2 = '' OR delivery_key < (SELECT delivery_key FROM "
              "delivery WHERE delivery_id = ?2)) ORDER BY delivery_key DESC LIMIT ?3",
              episode_id, page.before, RowsOf(page));
  return ReadDeliveries(query);
}

}  // namespace weft::sqlite
