// CRC-32C (Castagnoli), as RFC 3720 defines it. Any thread.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace weft {

uint32_t Crc32c(absl::string_view data);

}  // namespace weft
