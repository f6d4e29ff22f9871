// Pages of lists: sizes, opaque tokens, and a byte budget that keeps an answer under gRPC's message limit.
// Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft {

inline constexpr int32_t kDefaultPageSize = 100;
inline constexpr int32_t kMaxPageSize = 1000;
// An answer stops growing here although the page is not full. gRPC refuses messages above 4 MiB.
inline constexpr size_t kPageBytes = 2 << 20;

// `requested`, or `default_size` for 0; kInvalidArgument when negative or above kMaxPageSize.
absl::StatusOr<int32_t> PageSize(int32_t requested, int32_t default_size = kDefaultPageSize);

// A token that continues `list` after the row with `key`. `list` names the call and its filters, so that a
// token serves no other list; it is kept as a checksum.
std::string EncodePageToken(absl::string_view list, absl::string_view key);
// The key; "" for an empty token; kInvalidArgument for one that EncodePageToken did not make for `list`.
absl::StatusOr<std::string> DecodePageToken(absl::string_view list, absl::string_view token);

// Calls `add(row)`, which returns the bytes it took, for rows up to `size` and kPageBytes (at least one row).
// Returns the token of the next page, "" when `rows` has no more. `rows` may hold one more than `size` to
// tell.
template <typename Row, typename Add, typename Key>
std::string FillPage(const std::vector<Row>& rows, int32_t size, absl::string_view list, Add add, Key key) {
  size_t bytes = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool full = i >= static_cast<size_t>(size) || bytes >= kPageBytes;
    if (i > 0 && full) return EncodePageToken(list, key(rows[i - 1]));
    bytes += add(rows[i]);
  }
  return "";
}

}  // namespace weft
