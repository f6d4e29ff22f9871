#include "cli/version.h"

namespace weft::cli {

const char* Version() { return WEFT_VERSION; }

}  // namespace weft::cli
