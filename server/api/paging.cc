#include "server/api/paging.h"

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/crc32c.h"

namespace weft {
namespace {

constexpr size_t kMaxTokenBytes = 2048;
constexpr size_t kChecksumDigits = 8;

std::string Checksum(absl::string_view list, absl::string_view key) {
  return absl::StrFormat("%08x", Crc32c(absl::StrCat(list, "\n", key)));
}

absl::Status BadToken() {
  return absl::InvalidArgumentError(
      "page_token is not one that this list gave out. Start again with an empty page_token and the same "
      "filters.");
}

}  // namespace

absl::StatusOr<int32_t> PageSize(int32_t requested, int32_t default_size) {
  if (requested == 0) return default_size;
  if (requested < 0 || requested > kMaxPageSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("page_size is ", requested, "; it must be 0 (the default) to ", kMaxPageSize, "."));
  }
  return requested;
}

std::string EncodePageToken(absl::string_view list, absl::string_view key) {
  return absl::WebSafeBase64Escape(absl::StrCat(Checksum(list, key), key));
}

absl::StatusOr<std::string> DecodePageToken(absl::string_view list, absl::string_view token) {
  if (token.empty()) return std::string();
  std::string plain;
  if (token.size() > kMaxTokenBytes || !absl::WebSafeBase64Unescape(token, &plain)) return BadToken();
  if (plain.size() <= kChecksumDigits) return BadToken();
  std::string key = plain.substr(kChecksumDigits);
  if (plain.substr(0, kChecksumDigits) != Checksum(list, key)) return BadToken();
  return key;
}

}  // namespace weft
