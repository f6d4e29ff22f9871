// The newest samples of one series in 212 bytes: the latest 48 exactly, up to 112 before them rounded to a
// twelfth of the noise and clipped ten noises from the level. A plain value; used by one thread.
//
// A sample is a log ratio to the series' reference in steps of 0.0001: 16 bits hold 1/26 to 26 times the
// reference.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "server/detect/statistics.h"

namespace weft {

class SampleWindow {
 public:
  static constexpr int kRecent = 48;
  static constexpr int kOlder = 112;
  static constexpr int kCapacity = kRecent + kOlder;
  static constexpr float kStepsPerUnit = 10000;  // of a natural logarithm

  int size() const { return recent_count_ + older_count_; }
  // Takes the newest sample; the oldest makes room. `level` and `scale` (both in logs) say around what, and
  // how finely, samples that leave the exact part are kept.
  void Push(int16_t sample, float level, float scale) {
    if (recent_count_ == kRecent) {
      Age(recent_[recent_next_], level, scale);
    } else {
      ++recent_count_;
    }
    recent_[recent_next_] = sample;
    recent_next_ = static_cast<uint8_t>(recent_next_ + 1 == kRecent ? 0 : recent_next_ + 1);
  }
  // Writes all samples as logs, oldest first, to `logs`, which has room for kCapacity. Returns size().
  int Copy(float* logs) const;
  // The newest sample; of an empty window 0.
  float Newest() const { return LogOf(recent_[recent_next_ == 0 ? kRecent - 1 : recent_next_ - 1U]); }
  // The newest `count` samples, oldest first, as logs. `count` is at most kRecent and at most size().
  void CopyNewest(int count, float* logs) const;
  // Forgets all but the newest `count` samples.
  void KeepNewest(int count);
  // Whether the counts and positions are within bounds, for what was read from a disk.
  bool IsSound() const;

  static int16_t Quantise(float log) {
    const float steps = Bounded(log * kStepsPerUnit, -32767, 32767);
    return static_cast<int16_t>(steps + std::copysign(0.5F, steps));
  }
  static float LogOf(int16_t sample) { return static_cast<float>(sample) * (1 / kStepsPerUnit); }

 private:
  void Age(int16_t sample, float level, float scale);
  void Recode(float level, float scale);

  std::array<int16_t, kRecent> recent_{};
  std::array<int8_t, kOlder> older_{};
  int16_t centre_ = 0;       // of the codes in older_
  uint16_t code_steps_ = 0;  // one code, in steps of 0.0001; 0: nothing was coded yet
  uint8_t recent_count_ = 0;
  uint8_t recent_next_ = 0;
  uint8_t older_count_ = 0;
  uint8_t older_next_ = 0;
};

}  // namespace weft
