// What the detector calls slow. Plain values; any thread.
#pragma once

#include <cstdint>

namespace weft {

struct DetectorOptions {
  double slow_ratio = 0.85;       // a run below this share of the expected is slow; 0.3 to 0.99
  double recovered_ratio = 0.92;  // a run above this share is good; not below slow_ratio
  uint32_t slow_runs = 3;         // slow (or failed) runs in a row before a finding
  uint32_t recovered_runs = 3;    // good runs in a row before a finding ends
  uint32_t baseline_runs = 6;     // good runs before a node has a baseline
};

}  // namespace weft
