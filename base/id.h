// Identifiers. Any thread.
#pragma once

#include <cstddef>
#include <string>

#include "absl/time/time.h"

namespace weft {

// Random UUID (version 4), lower case.
std::string RandomUuid();
// UUID version 7: sorts by `now` (milliseconds), random below that.
std::string TimeOrderedUuid(absl::Time now);
// `bytes` random bytes in hex, from the kernel's generator.
std::string RandomHex(size_t bytes);

}  // namespace weft
