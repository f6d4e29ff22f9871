#include "server/detect/sample_window.h"

#include <algorithm>
#include <cmath>

namespace weft {
namespace {

constexpr float kCodesPerScale = 12;
// Codes are made anew when the level left their middle by this many scales, or the scale changed by this
// factor.
constexpr float kMostOffCentre = 3;
constexpr float kMostRescaled = 1.6F;
constexpr int kRecodeEvery = 8;  // samples; a level does not go far within so few

int8_t CodeOf(float value) {
  const float bounded = Bounded(value, -127, 127);
  return static_cast<int8_t>(bounded + std::copysign(0.5F, bounded));
}

uint16_t CodeSteps(float scale) {
  return static_cast<uint16_t>(Bounded(scale * SampleWindow::kStepsPerUnit / kCodesPerScale, 1.0F, 2000.0F));
}

}  // namespace

void SampleWindow::Age(int16_t sample, float level, float scale) {
  if (older_count_ == 0 || older_next_ % kRecodeEvery == 0) Recode(level, scale);
  older_[older_next_] = CodeOf(static_cast<float>(sample - centre_) / static_cast<float>(code_steps_));
  older_next_ = static_cast<uint8_t>(older_next_ + 1 == kOlder ? 0 : older_next_ + 1);
  if (older_count_ < kOlder) ++older_count_;
}

void SampleWindow::Recode(float level, float scale) {
  const float wanted = std::max(scale * kStepsPerUnit / kCodesPerScale, 1.0F);
  const auto steps = static_cast<float>(code_steps_);
  const float off = std::abs(level * kStepsPerUnit - static_cast<float>(centre_));
  if (code_steps_ != 0 && off <= kMostOffCentre * kCodesPerScale * steps && wanted <= kMostRescaled * steps &&
      wanted * kMostRescaled >= steps) {
    return;
  }
  const int16_t old_centre = centre_;
  centre_ = Quantise(level);
  code_steps_ = CodeSteps(scale);
  const float ratio = steps / static_cast<float>(code_steps_);
  const float shift = static_cast<float>(old_centre - centre_) / static_cast<float>(code_steps_);
  for (int8_t& code : older_) code = CodeOf(static_cast<float>(code) * ratio + shift);
}

int SampleWindow::Copy(float* logs) const {
  const auto centre = static_cast<float>(centre_) / kStepsPerUnit;
  const auto code = static_cast<float>(code_steps_) / kStepsPerUnit;
  const auto decode = [&](int from, int to, float* out) {
    for (int i = from; i < to; ++i)
      *out++ = centre + code * static_cast<float>(older_[static_cast<size_t>(i)]);
    return out;
  };
  const int first = older_next_ - older_count_;
  float* out = first < 0 ? decode(first + kOlder, kOlder, logs) : logs;
  out = decode(std::max(first, 0), older_next_, out);
  CopyNewest(recent_count_, out);
  return size();
}

void SampleWindow::CopyNewest(int count, float* logs) const {
  const auto convert = [&](int from, int to, float* out) {
    for (int i = from; i < to; ++i) *out++ = LogOf(recent_[static_cast<size_t>(i)]);
    return out;
  };
  const int first = recent_next_ - count;
  float* out = first < 0 ? convert(first + kRecent, kRecent, logs) : logs;
  convert(std::max(first, 0), recent_next_, out);
}

void SampleWindow::KeepNewest(int count) {
  recent_count_ = static_cast<uint8_t>(std::min<int>(recent_count_, count));
  older_count_ = static_cast<uint8_t>(std::clamp<int>(count - recent_count_, 0, older_count_));
}

bool SampleWindow::IsSound() const {
  return recent_count_ <= kRecent && recent_next_ < kRecent && older_count_ <= kOlder &&
         older_next_ < kOlder && (older_count_ == 0 || (recent_count_ == kRecent && code_steps_ > 0));
}

}  // namespace weft
