// Checks of single request fields. Any thread.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/timestamp.pb.h"

namespace weft {

// kInvalidArgument, naming `field` and the limit, unless `text` has `min` to `max` bytes and no control
// characters.
absl::Status CheckText(absl::string_view field, absl::string_view text, size_t min, size_t max);
// kInvalidArgument unless the time lies in the years 1 to 9999.
absl::Status CheckTime(absl::string_view field, const google::protobuf::Timestamp& time);

}  // namespace weft
