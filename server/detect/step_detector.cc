#include "server/detect/step_detector.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/detect/statistics.h"

namespace weft {
namespace {

static_assert(std::endian::native == std::endian::little, "states are stored as they lie in memory");
static_assert(std::is_trivially_copyable_v<StepState>);

using Direction = StepEvent::Direction;

constexpr int kTraining = 24;  // samples that make the first level
constexpr float kLeastScale = 0.002F;
constexpr float kQuartile = 0.6745F;  // half of a normal law lies within so many scales
// Gains per sample, and by how much slower while suspicious, so that a step does not become the level unseen.
constexpr float kLevelGain = 0.073F;
constexpr float kScaleGain = 0.02F;
constexpr float kLagGain = 0.03F;
constexpr float kSuspiciousPace = 0.25F;
constexpr float kLevelClip = 1.5F;  // scales
constexpr float kClip = 3;
// The screen: what a residual must exceed to count, and the sum that makes it suspicious, in scales.
constexpr float kAllowance = 0.4F;
constexpr float kSuspicion = 3;
constexpr float kMostSum = 30;
// A sample that lies less than this from the level, in logs, is no news.
constexpr float kLeastNews = 0.012F;
constexpr int kFreshSuspicion = 8;  // samples; each is looked at
// Log odds so far below what is required that the next samples cannot make up for it, and how many of them.
constexpr double kHopeless = 5;
constexpr uint8_t kHopelessPause = 4;
constexpr float kMostCorrelation = 0.8F;
// A log at which a level says only "off the scale".
constexpr float kMostLog = 3.2F;
constexpr int kSamplesOfALastingLevel = 48;
constexpr float kMostLeftOfAStep = 0.4F;

float MedianOf(std::array<float, SampleWindow::kCapacity>& values, int count) {
  const auto middle = values.begin() + count / 2;
  std::nth_element(values.begin(), middle, values.begin() + count);
  return *middle;
}

bool IsSuspicious(const StepState& state) {
  return state.sum_low > kSuspicion || state.sum_high > kSuspicion;
}

float Correlation(const StepState& state) {
  return Bounded(state.lag_covariance / std::max(state.lag_variance, 0.3F), 0.0F, kMostCorrelation);
}

// Level and scale anew from all samples of the window.
void LearnLevel(StepState& state, float least_scale) {
  std::array<float, SampleWindow::kCapacity> logs;
  const int count = state.window.Copy(logs.data());
  state.level = MedianOf(logs, count);
  for (int i = 0; i < count; ++i) {
    logs[static_cast<size_t>(i)] = std::abs(logs[static_cast<size_t>(i)] - state.level);
  }
  state.scale = std::max(least_scale, static_cast<float>(kMadToSd) * MedianOf(logs, count));
  state.sum_low = state.sum_high = 0;
  state.suspicion = state.pause = 0;
}

void StartAnew(StepState& state, double value) {
  state = StepState{};
  state.reference = static_cast<float>(value);
}

// False while there are too few samples for a level.
bool LearnFirstLevel(StepState& state, double value) {
  if (state.window.size() < kTraining) return false;
  LearnLevel(state, kLeastScale);
  if (std::abs(state.level) >= kMostLog) {
    // The first value was no measure for the others.
    if (value > 0) StartAnew(state, value);
    return false;
  }
  state.has_level = 1;
  state.best_level = state.previous_level = state.level;
  return true;
}

void FollowLevel(StepState& state, float log, float last_log) {
  const float pace = IsSuspicious(state) ? kSuspiciousPace : 1;
  const float per_scale = 1 / state.scale;
  const float residual = (log - state.level) * per_scale;
  const float clipped = Bounded(residual, -kClip, kClip);
  const float last = Bounded((last_log - state.level) * per_scale, -kClip, kClip);
  state.lag_covariance += kLagGain * pace * (clipped * last - state.lag_covariance);
  state.lag_variance += kLagGain * pace * (clipped * clipped - state.lag_variance);
  // Near the fourth root of (1 - r) / (1 + r): half of what correlation r demands, the closer look does the
  // rest.
  const float shrunk = clipped * (1 - 0.53F * Correlation(state));
  state.sum_low = Bounded(state.sum_low - shrunk - kAllowance, 0.0F, kMostSum);
  state.sum_high = Bounded(state.sum_high + shrunk - kAllowance, 0.0F, kMostSum);
  state.level += kLevelGain * pace * Bounded(residual, -kLevelClip, kLevelClip) * state.scale;
  state.scale *= 1 + std::copysign(kScaleGain, std::abs(residual) - kQuartile) * pace;
  state.scale = std::max(state.scale, kLeastScale);
}

// Whether this sample of a suspicious stretch is worth a closer look: each at first,
// fewer later, and none that is back on the level.
bool IsTimeToLook(StepState& state, float log) {
  if (state.suspicion < 255) ++state.suspicion;
  const float news = state.sum_high > state.sum_low ? state.level - log : log - state.level;
  if (news > -kLeastNews) return false;
  if (state.pause > 0) {
    --state.pause;
    return false;
  }
  if (state.suspicion > kFreshSuspicion) state.pause = state.suspicion < 48 ? 2 : 7;
  return true;
}

}  // namespace

StepDetector::StepDetector(StepOptions options)
    : options_(options), sign_(options.better == Better::kHigher ? 1.0F : -1.0F) {}

bool StepDetector::IsMissing(const StepState& state, double value) const {
  if (!std::isfinite(value) || value < 0) return true;
  return value == 0 && (options_.better == Better::kLower || state.reference == 0);
}

// Takes a value; true when it is time for a closer look.
bool StepDetector::Screen(StepState& state, double value) const {
  if (IsMissing(state, value)) return false;
  if (state.reference == 0) StartAnew(state, value);
  const auto ratio = static_cast<float>(value) / state.reference;
  const int16_t sample = SampleWindow::Quantise(sign_ * std::log(std::max(ratio, 1e-6F)));
  const float last_log = state.window.Newest();
  state.window.Push(sample, state.level, state.scale);
  if (state.has_level == 0 && !LearnFirstLevel(state, value)) return false;
  const float log = SampleWindow::LogOf(sample);
  FollowLevel(state, log, last_log);
  if (IsSuspicious(state)) return IsTimeToLook(state, log);
  state.suspicion = state.pause = 0;
  if (state.window.size() >= kSamplesOfALastingLevel) {
    state.best_level = std::max(state.best_level, state.level);
  }
  return false;
}

std::optional<StepDetector::Look> StepDetector::LookCloser(const StepState& state) const {
  StepQuestion question;
  question.window = &state.window;
  question.is_up = state.sum_high > state.sum_low;
  question.level = state.level;
  question.scale = state.scale;
  question.correlation = Correlation(state);
  question.least_after = options_.profile == StepProfile::kFast ? 4 : 5;
  const std::optional<StepEvidence> evidence = WeighStep(question);
  if (!evidence.has_value()) return std::nullopt;
  return Look{*evidence, question.is_up ? Direction::kBetter : Direction::kWorse};
}

std::optional<StepDetector::Look> StepDetector::TakeAndLook(StepState& state, double value) const {
  return Screen(state, value) ? LookCloser(state) : std::nullopt;
}

std::optional<StepEvent> StepDetector::Observe(StepState& state, double value) const {
  if (!Screen(state, value)) return std::nullopt;
  const std::optional<Look> look = LookCloser(state);
  if (!look.has_value()) return std::nullopt;
  if (!MayBeStep(look->evidence)) {
    if (state.suspicion > kFreshSuspicion) state.pause = std::max<uint8_t>(state.pause, 1);
    return std::nullopt;
  }
  const double odds = StepLogOdds(look->evidence);
  const double missing = RequiredLogOdds(options_.profile, look->evidence.after) - odds;
  if (missing > 0) {
    if (missing > kHopeless) state.pause = std::max(state.pause, kHopelessPause);
    return std::nullopt;
  }
  return Accept(state, *look, 1 / (1 + std::exp(-odds)));
}

StepEvent StepDetector::Accept(StepState& state, const Look& look, double confidence) const {
  const bool is_worse = look.direction == Direction::kWorse;
  const float sign = is_worse ? 1 : -1;
  const float before = sign * look.evidence.level_before;
  const float after = sign * look.evidence.level_after;
  StepEvent event;
  event.direction = look.direction;
  const int on_new_level = look.evidence.after - look.evidence.still_high;
  event.samples_ago = on_new_level - 1;
  event.level_before = ValueOf(state, before);
  event.level_after = ValueOf(state, after);
  event.confidence = confidence;
  if (is_worse) {
    state.previous_level = before;
  } else {
    const float lost = state.previous_level - before;
    event.recovers = lost > 0 && state.previous_level - after <= kMostLeftOfAStep * lost;
  }
  state.best_level = std::max({state.best_level, before, after});
  state.window.KeepNewest(on_new_level);
  LearnLevel(state, state.scale);
  return event;
}

double StepDetector::ValueOf(const StepState& state, float log) const {
  return state.has_level == 0
             ? 0
             : static_cast<double>(state.reference) * std::exp(static_cast<double>(sign_ * log));
}

double StepDetector::Level(const StepState& state) const { return ValueOf(state, state.level); }
double StepDetector::BestLevel(const StepState& state) const { return ValueOf(state, state.best_level); }
double StepDetector::PreviousLevel(const StepState& state) const {
  return ValueOf(state, state.previous_level);
}

std::string EncodeStepState(const StepState& state) {
  return std::string(reinterpret_cast<const char*>(&state), sizeof(state));
}

absl::StatusOr<StepState> DecodeStepState(absl::string_view bytes) {
  StepState state;
  if (bytes.size() != sizeof(state)) {
    return absl::DataLossError(
        absl::StrCat("a step state has ", sizeof(state), " bytes, not ", bytes.size()));
  }
  std::memcpy(&state, bytes.data(), sizeof(state));
  if (state.version != StepState::kVersion) {
    return absl::DataLossError(absl::StrCat("step state of version ", state.version, ", expected ",
                                            StepState::kVersion, "; start this series anew"));
  }
  const std::array<float, 9> numbers = {state.reference,      state.level,        state.scale,
                                        state.lag_covariance, state.lag_variance, state.sum_low,
                                        state.sum_high,       state.best_level,   state.previous_level};
  const bool is_finite =
      std::all_of(numbers.begin(), numbers.end(), [](float f) { return std::isfinite(f); });
  const bool is_sound = is_finite && state.window.IsSound() && state.reference >= 0 &&
                        (state.has_level == 0 || state.scale > 0) && state.has_level <= 1;
  if (!is_sound) return absl::DataLossError("a step state is damaged; start this series anew");
  return state;
}

}  // namespace weft
