// Which sequences of one spool are stored: a set of integers kept as closed ranges that never touch.
// One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "store/sqlite/database.h"

namespace weft::sqlite {

class StoredRanges {
 public:
  // Reads the ranges of the spool that lie in or next to [first, last]; 1 <= first <= last < 2^63 - 1.
  absl::Status Load(Database& database, absl::string_view node_id, absl::string_view epoch, int64_t first,
                    int64_t last);
  // `sequence` lies in the range loaded.
  bool Contains(int64_t sequence) const;
  void Add(int64_t sequence);
  // Writes what Add changed.
  absl::Status Save(Database& database, absl::string_view node_id, absl::string_view epoch) const;

 private:
  std::map<int64_t, int64_t> ranges_;  // first to last
  std::map<int64_t, int64_t> loaded_;  // as they are in the database
};

}  // namespace weft::sqlite
