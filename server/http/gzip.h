// Content coding. Any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft {

// Whether an Accept-Encoding value allows gzip: named (or *) and not with q=0. Empty: no.
bool AcceptsGzip(absl::string_view accept_encoding);
// `data` as one gzip member. kInternal if zlib refuses (out of memory).
absl::StatusOr<std::string> Gzip(absl::string_view data);

}  // namespace weft
