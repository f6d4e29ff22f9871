#include "server/api/field_check.h"

#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr int64_t kFirstSecond = -62135596800;  // 0001-01-01T00:00:00Z
constexpr int64_t kLastSecond = 253402300799;   // 9999-12-31T23:59:59Z

}  // namespace

absl::Status CheckText(absl::string_view field, absl::string_view text, size_t min, size_t max) {
  if (text.size() < min || text.size() > max) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is ", text.size(), " bytes long; it must be ", min, " to ", max, "."));
  }
  if (!IsValidUtf8(text)) return absl::InvalidArgumentError(absl::StrCat(field, " is not valid UTF-8."));
  if (EscapeControl(text) == text) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, " holds control characters."));
}

absl::Status CheckTime(absl::string_view field, const google::protobuf::Timestamp& time) {
  const bool nanos_ok = time.nanos() >= 0 && time.nanos() < 1000000000;
  if (nanos_ok && time.seconds() >= kFirstSecond && time.seconds() <= kLastSecond) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, " is not a time between the years 1 and 9999."));
}

}  // namespace weft
