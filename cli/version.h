#pragma once

namespace weft::cli {

// Version of this build, e.g. "0.1.0".
const char* Version();

}  // namespace weft::cli
