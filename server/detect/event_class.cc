#include "server/detect/event_class.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "server/detect/statistics.h"

namespace weft {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kLeastPeers = 8;
// A series with less than this share of the fleet's step left after the common mode is out has none of its
// own.
constexpr double kMostOwnShare = 0.35;
constexpr size_t kSameOnset = 5;  // samples

constexpr size_t kBlocks = 25;  // of a series, for what is slow
constexpr double kLeastDrift = 0.018;

constexpr double kDeepDip = 0.27;
constexpr size_t kLongestDip = 3;  // samples

constexpr size_t kFlappingWindow = 80;  // samples
constexpr int kLeastEpisodes = 5;
constexpr double kLeastFlap = 0.05;
constexpr double kLeastFlapScales = 5;
constexpr double kMostBetween = 0.1;  // of the samples: two levels, not wide noise
constexpr size_t kFlappingStride = 10;

using Direction = StepEvent::Direction;

double MiddleOfRange(const std::vector<double>& values, size_t from, size_t to) {
  std::vector<double> some;
  for (size_t i = from; i < std::min(to, values.size()); ++i) {
    if (std::isfinite(values[i])) some.push_back(values[i]);
  }
  return some.empty() ? kMissing : MiddleOf(some);
}

// Logs relative to the middle of all values.
std::vector<double> Logs(const std::vector<double>& values) {
  const double middle = MiddleOfRange(values, 0, values.size());
  std::vector<double> logs;
  for (const double value : values) logs.push_back(std::log(std::max(value, middle * 1e-3) / middle));
  return logs;
}

std::vector<double> BlockMiddles(const std::vector<double>& logs) {
  std::vector<double> middles;
  for (size_t b = 0; b < kBlocks; ++b) {
    const double middle = MiddleOfRange(logs, b * logs.size() / kBlocks, (b + 1) * logs.size() / kBlocks);
    if (std::isfinite(middle)) middles.push_back(middle);
  }
  return middles;
}

// Noise from one sample to the next, which steps and drifts hardly touch.
double NoiseOf(const std::vector<double>& logs) {
  std::vector<double> differences;
  double last = kMissing;
  for (const double log : logs) {
    if (!std::isfinite(log)) continue;
    if (std::isfinite(last)) differences.push_back(log - last);
    last = log;
  }
  return std::max(0.002, RobustScale(std::move(differences), 0) / std::sqrt(2.0));
}

// Up and down between two clear levels, again and again.
bool IsFlappingWindow(const std::vector<double>& window, double noise) {
  std::vector<double> sorted = window;
  std::sort(sorted.begin(), sorted.end());
  const double low_level = sorted[sorted.size() / 10];
  const double high_level = sorted[sorted.size() * 9 / 10];
  const double depth = high_level - low_level;
  if (depth < std::max(kLeastFlap, kLeastFlapScales * noise)) return false;
  int episodes = 0, between = 0;
  size_t low = 0;
  bool is_low = false;
  for (const double log : window) {
    const double height = (log - low_level) / depth;  // hysteresis: a third and two thirds
    if (!is_low && height < 1.0 / 3) ++episodes;
    is_low = height < (is_low ? 2.0 / 3 : 1.0 / 3);
    low += is_low ? 1 : 0;
    between += height > 1.0 / 3 && height < 2.0 / 3 ? 1 : 0;
  }
  const double share_low = static_cast<double>(low) / static_cast<double>(window.size());
  return episodes >= kLeastEpisodes && share_low >= 0.12 && share_low <= 0.85 &&
         between < kMostBetween * static_cast<double>(window.size());
}

bool IsFlapping(const std::vector<double>& logs, double noise) {
  std::vector<double> present;
  for (const double log : logs) {
    if (std::isfinite(log)) present.push_back(log);
  }
  for (size_t end = kFlappingWindow; end <= present.size(); end += kFlappingStride) {
    const auto last = present.begin() + static_cast<std::ptrdiff_t>(end);
    if (IsFlappingWindow({last - static_cast<std::ptrdiff_t>(kFlappingWindow), last}, noise)) return true;
  }
  return false;
}

// Sums of squares that remain around the best step, and around the best flat-then-sloping line, of block
// middles.
struct Shapes {
  double flat = 0, step = 0, ramp = 0;
  double step_size = 0;  // below 0: down
  double drift = 0;      // of the ramp, over the whole series
};

double SquaresAround(const std::vector<double>& y, size_t from, size_t to) {
  double sum = 0, squares = 0;
  for (size_t i = from; i < to; ++i) {
    sum += y[i];
    squares += y[i] * y[i];
  }
  return squares - sum * sum / static_cast<double>(to - from);
}

double MeanOf(const std::vector<double>& y, size_t from, size_t to) {
  double sum = 0;
  for (size_t i = from; i < to; ++i) sum += y[i];
  return sum / static_cast<double>(to - from);
}

Shapes ShapesOf(const std::vector<double>& y) {
  Shapes shapes;
  const size_t n = y.size();
  shapes.flat = shapes.step = shapes.ramp = SquaresAround(y, 0, n);
  for (size_t split = 1; split < n; ++split) {
    const double squares = SquaresAround(y, 0, split) + SquaresAround(y, split, n);
    if (squares >= shapes.step) continue;
    shapes.step = squares;
    shapes.step_size = MeanOf(y, split, n) - MeanOf(y, 0, split);
  }
  const double mean = MeanOf(y, 0, n);
  for (size_t bend = 0; bend + 8 < n && bend <= n / 3; ++bend) {
    const auto x = [&](size_t i) { return i > bend ? static_cast<double>(i - bend) : 0.0; };
    double sum = 0, square = 0, product = 0;
    for (size_t i = 0; i < n; ++i) sum += x(i);
    for (size_t i = 0; i < n; ++i) {
      const double centred = x(i) - sum / static_cast<double>(n);
      square += centred * centred;
      product += centred * (y[i] - mean);
    }
    const double squares = shapes.flat - product * product / square;
    if (squares >= shapes.ramp) continue;
    shapes.ramp = squares;
    shapes.drift = product / square * x(n - 1);
  }
  return shapes;
}

// Middle of the slopes between all pairs of block middles, over the whole series; and what it leaves
// unexplained.
struct Trend {
  double total = 0;
  double residual = 0;
};

Trend TrendOf(const std::vector<double>& y) {
  std::vector<double> slopes;
  for (size_t i = 0; i < y.size(); ++i) {
    for (size_t j = i + 1; j < y.size(); ++j) slopes.push_back((y[j] - y[i]) / static_cast<double>(j - i));
  }
  const double slope = MiddleOf(slopes);
  std::vector<double> rest;
  for (size_t i = 0; i < y.size(); ++i) rest.push_back(y[i] - slope * static_cast<double>(i));
  std::vector<double> copy = rest;
  const double centre = MiddleOf(copy);
  return {slope * static_cast<double>(y.size() - 1), RobustScale(std::move(rest), centre)};
}

bool IsDrift(const std::vector<double>& logs) {
  const std::vector<double> y = BlockMiddles(logs);
  if (y.size() < kBlocks / 2) return false;
  const Trend trend = TrendOf(y);
  return trend.total <= -kLeastDrift && -trend.total > 4 * trend.residual;
}

// Whether a slope explains a series better than the steps that the detector took it for.
bool IsSlopeRatherThanStep(const std::vector<double>& logs) {
  const std::vector<double> y = BlockMiddles(logs);
  if (y.size() < kBlocks / 2) return false;
  const Shapes shapes = ShapesOf(y);
  return shapes.drift <= -kLeastDrift && shapes.ramp < shapes.step;
}

bool HasDeepDips(const std::vector<double>& logs) {
  const double level = MiddleOfRange(logs, 0, logs.size());
  const double threshold = level + std::log(1 - kDeepDip);
  int dips = 0, longest = 0, length = 0;
  for (const double log : logs) {
    if (!std::isfinite(log)) continue;
    length = log < threshold ? length + 1 : 0;
    dips += length == 1 ? 1 : 0;
    longest = std::max(longest, length);
  }
  return dips >= 2 || (longest >= 2 && longest <= static_cast<int>(kLongestDip));
}

}  // namespace

const char* NameOf(EventClass kind) {
  constexpr std::array<const char*, 7> kNames = {"none",  "step",      "incident", "flapping",
                                                 "drift", "transient", "fleet"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<PlacedStep> FindSteps(const StepDetector& detector, const std::vector<double>& values) {
  std::vector<PlacedStep> steps;
  std::vector<size_t> present;
  present.reserve(values.size());
  StepState state;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    present.push_back(i);
    if (const auto event = detector.Observe(state, values[i])) {
      steps.push_back({i, present[present.size() - 1 - static_cast<size_t>(event->samples_ago)], *event});
    }
  }
  return steps;
}

EventClass ClassOf(const std::vector<double>& values, const std::vector<PlacedStep>& steps) {
  const std::vector<double> logs = Logs(values);
  const double noise = NoiseOf(logs);
  if (IsFlapping(logs, noise)) return EventClass::kFlapping;
  // What was lost to the first step, and what is still lost at the end.
  const auto worse = std::find_if(steps.begin(), steps.end(), [](const PlacedStep& one) {
    return one.event.direction == Direction::kWorse;
  });
  if (worse != steps.end()) {
    const bool recovered =
        std::any_of(worse, steps.end(), [](const PlacedStep& one) { return one.event.recovers; });
    if (recovered) return EventClass::kIncident;
    return IsSlopeRatherThanStep(logs) ? EventClass::kDrift : EventClass::kStep;
  }
  if (IsDrift(logs)) return EventClass::kDrift;
  return HasDeepDips(logs) ? EventClass::kTransient : EventClass::kNone;
}

std::vector<double> CommonMode(const std::vector<std::vector<double>>& cohort) {
  std::vector<double> levels;
  size_t length = 0;
  for (const auto& series : cohort) {
    levels.push_back(MiddleOfRange(series, 0, series.size()));
    length = std::max(length, series.size());
  }
  std::vector<double> common(length, kMissing);
  for (size_t i = 0; i < length; ++i) {
    std::vector<double> column;
    for (size_t k = 0; k < cohort.size(); ++k) {
      if (i < cohort[k].size() && std::isfinite(cohort[k][i]) && levels[k] > 0)
        column.push_back(cohort[k][i] / levels[k]);
    }
    if (!column.empty()) common[i] = MiddleOf(column);
  }
  return common;
}

std::vector<EventClass> ClassesOf(const StepDetector& detector,
                                  const std::vector<std::vector<double>>& cohort) {
  std::vector<EventClass> classes;
  if (cohort.size() < kLeastPeers) {
    for (const auto& series : cohort) classes.push_back(ClassOf(series, FindSteps(detector, series)));
    return classes;
  }
  const std::vector<double> common = CommonMode(cohort);
  double fleet_step = 0;  // log, below 0
  size_t fleet_onset = 0;
  for (const PlacedStep& step : FindSteps(detector, common)) {
    const double log = std::log(step.event.level_after / step.event.level_before);
    if (log >= fleet_step) continue;
    fleet_step = log;
    fleet_onset = step.onset;
  }
  for (const auto& series : cohort) {
    std::vector<double> own = series;
    for (size_t i = 0; i < own.size(); ++i) own[i] /= common[i];
    const std::vector<PlacedStep> steps = FindSteps(detector, own);
    const bool has_own = std::any_of(steps.begin(), steps.end(), [&](const PlacedStep& step) {
      const double log = std::log(step.event.level_after / step.event.level_before);
      const bool is_with_fleet =
          step.onset + kSameOnset >= fleet_onset && step.onset <= fleet_onset + kSameOnset;
      return log < 0 && !(is_with_fleet && log > kMostOwnShare * fleet_step);
    });
    classes.push_back(fleet_step < 0 && !has_own ? EventClass::kFleet : ClassOf(own, steps));
  }
  return classes;
}

}  // namespace weft
