// Units for people. 1 GB = 1e9 B; message sizes are binary. Any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace weft {

// "23.4 MB/s", three significant digits, decimal units.
std::string FormatBandwidth(double bytes_per_second);
// "1 MiB", "64 KiB", "8 B".
std::string FormatMessageSize(uint64_t bytes);
// "4m", "3h", "2d": the age as tables show it; "never" for an infinite one.
std::string FormatAge(absl::Duration age);
// "12.3 us".
std::string FormatLatency(double seconds);

}  // namespace weft
