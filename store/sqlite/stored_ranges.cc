#include "store/sqlite/stored_ranges.h"

#include <iterator>

namespace weft::sqlite {

absl::Status StoredRanges::Load(Database& database, absl::string_view node_id, absl::string_view epoch,
                                int64_t first, int64_t last) {
  // The range that begins before `first` may reach into it; those that begin later, up to just after `last`.
  Query query(database,
              "SELECT first_sequence, last_sequence FROM stored_range WHERE node_id = ?1 AND epoch = ?2 AND "
              "first_sequence >= ifnull((SELECT max(first_sequence) FROM stored_range WHERE node_id = ?1 AND "
              "epoch = ?2 AND first_sequence <= ?3), 0) AND first_sequence <= ?4",
              node_id, epoch, first, last + 1);
  while (query.Next()) loaded_.emplace(query.Int(0), query.Int(1));
  ranges_ = loaded_;
  return query.status();
}

bool StoredRanges::Contains(int64_t sequence) const {
  const auto after = ranges_.upper_bound(sequence);
  return after != ranges_.begin() && std::prev(after)->second >= sequence;
}

void StoredRanges::Add(int64_t sequence) {
  if (Contains(sequence)) return;
  auto after = ranges_.upper_bound(sequence);
  auto range = after;
  if (after != ranges_.begin() && std::prev(after)->second == sequence - 1) {
    range = std::prev(after);
    range->second = sequence;
  } else {
    range = ranges_.emplace(sequence, sequence).first;
  }
  if (after == ranges_.end() || after->first != sequence + 1) return;
  range->second = after->second;
  ranges_.erase(after);
}

absl::Status StoredRanges::Save(Database& database, absl::string_view node_id,
                                absl::string_view epoch) const {
  for (const auto& [first, last] : loaded_) {
    if (ranges_.contains(first)) continue;
    const absl::Status status =
        Query(database, "DELETE FROM stored_range WHERE node_id = ? AND epoch = ? AND first_sequence = ?",
              node_id, epoch, first)
            .Run();
    if (!status.ok()) return status;
  }
  for (const auto& [first, last] : ranges_) {
    const auto before = loaded_.find(first);
    if (before != loaded_.end() && before->second == last) continue;
    const absl::Status status =
        Query(database,
              "INSERT INTO stored_range (node_id, epoch, first_sequence, last_sequence) VALUES (?, ?, ?, ?) "
              "ON CONFLICT (node_id, epoch, first_sequence) DO UPDATE SET last_sequence = "
              "excluded.last_sequence",
              node_id, epoch, first, last)
            .Run();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace weft::sqlite
