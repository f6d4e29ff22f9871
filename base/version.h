// The version of this build, e.g. "0.1.0". Any thread.
#pragma once

#include "absl/strings/string_view.h"

namespace weft {

absl::string_view Version();

}  // namespace weft
