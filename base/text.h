// Text from outside: validity, cutting and safe display. Any thread.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace weft {

bool IsValidUtf8(absl::string_view text);
// Invalid sequences become U+FFFD.
std::string ToValidUtf8(absl::string_view text);
// At most `max_bytes`, cut at a code-point boundary. `text` is valid UTF-8.
std::string CutUtf8(absl::string_view text, size_t max_bytes);
// Control characters (C0, DEL, C1) as \xNN, so that a name cannot steer a terminal or forge a log line.
std::string EscapeControl(absl::string_view text);
// 1 to 253 printable ASCII characters without space, <, >, &, quotes or backslash.
bool IsSafeName(absl::string_view name);

}  // namespace weft
