// Percentiles of what was timed. Any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/v1/probe.pb.h"

namespace weft::fabric {

// Nearest-rank percentiles. Empty values give an empty distribution.
v1::Distribution Summarize(std::vector<double> values);

// When messages completed, thinned to the ends of blocks so that a long run needs little memory. Blocks have
// the same number of messages, a sixteenth of all and at most 32: single completions come in bursts, which
// says something of the poller and nothing of the link.
class BlockTimes {
 public:
  BlockTimes(uint64_t messages, uint64_t message_bytes);
  // Message after message, `now` in ticks, not falling.
  void OnComplete(int64_t now);
  // Bytes per second of each whole block, the first counted from `start`. A poller that was held up sees many
  // completions at once, and a link looks infinitely fast for a moment: a block that took less than half
  // of the average is counted as one with the next, and left out at the end.
  std::vector<double> Rates(int64_t start) const;
  int64_t last() const { return last_; }

 private:
  const uint64_t block_messages_;
  const double block_bytes_;
  uint64_t completed_ = 0;
  int64_t last_ = 0;
  std::vector<int64_t> ends_;
};

}  // namespace weft::fabric
