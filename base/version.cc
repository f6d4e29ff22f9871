#include "base/version.h"

namespace weft {

absl::string_view Version() { return WEFT_VERSION; }

}  // namespace weft
