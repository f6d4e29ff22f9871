#include "server/detect/step_evidence.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "server/detect/sample_window.h"
#include "server/detect/statistics.h"

namespace weft {
namespace {

constexpr int kCapacity = SampleWindow::kCapacity;
constexpr int kMostAfter = 60;           // older onsets are history, not news
constexpr int kLeastBefore = 12;         // samples that make a level
constexpr float kLeastShift = 0.015F;    // of the level, logs
constexpr float kLeastNews = 0.012F;     // by which the newest samples lie below the running level, logs
constexpr float kLeastFirstLook = 3.5F;  // contrast, half corrected for correlation
constexpr float kClip = 3;               // scales; beyond them a sample is a dip
constexpr float kHuber = 1.5F;           // scales of the whitened residual
constexpr float kLeastScale = 0.001F;
constexpr float kMeanAbsToSd = 1.2533F;
constexpr float kMostCorrelation = 0.85F;
constexpr int kOnsetMargin = 5;
// In log likelihood: what is further behind the best onset counts as impossible
constexpr double kMostBehind = 10;

using Samples = std::array<float, kCapacity>;

constexpr std::array<float, SampleWindow::kRecent + 1> kReciprocals = [] {
  std::array<float, SampleWindow::kRecent + 1> reciprocals{};
  for (size_t i = 1; i < reciprocals.size(); ++i) reciprocals[i] = 1 / static_cast<float>(i);
  return reciprocals;
}();

float MedianOf(const float* from, int count) {
  Samples copy;
  std::copy(from, from + count, copy.begin());
  if (count < 8) {
    std::sort(copy.begin(), copy.begin() + count);
    return copy[static_cast<size_t>(count / 2)];
  }
  std::nth_element(copy.begin(), copy.begin() + count / 2, copy.begin() + count);
  return copy[static_cast<size_t>(count / 2)];
}

// Regression of whitened samples on a constant, a slope and a step that begins at a sample. The regressors'
// moments have closed forms, so a split costs a few operations.
class Whitened {
 public:
  Whitened(int count, float correlation) : count_(count), rows_(count - 1), gain_(1 - correlation) {
    middle_ = count / 2.0;
    const double n = rows_;
    slope_square_ = n * (n * n - 1) / 12;
  }

  struct Step {
    double square;        // of the step's regressor, the constant taken out
    double beside_slope;  // the same, the slope taken out as well
    double along_slope;   // product with the slope's regressor
    double sum;
  };
  Step StepAt(int onset) const {
    const double later = count_ - onset - 1;
    const double sum = 1 + gain_ * later;
    const double along = (onset - middle_) + gain_ * ((onset + count_) / 2.0 - middle_) * later;
    const double square = 1 + gain_ * gain_ * later - sum * sum / rows_;
    return {square, square - along * along / slope_square_, along, sum};
  }

  double middle() const { return middle_; }
  double slope_square() const { return slope_square_; }
  double gain() const { return gain_; }
  int rows() const { return rows_; }

 private:
  int count_;
  int rows_;
  double gain_;
  double middle_;
  double slope_square_;
};

// What each split would explain, and where the onset lies: not at the best split but at the median of the
// splits' likelihood, which is wrong by more than a few samples much less often.
struct OnsetScan {
  int onset = -1;
  float mass = 0;
};

OnsetScan ScanOnsets(const Samples& samples, int count, float correlation, int first, int last) {
  const Whitened model(count, correlation);
  const auto middle = static_cast<float>(model.middle());
  Samples whitened;
  float squares = 0, sum = 0, moment = 0;
  for (int i = 1; i < count; ++i) {
    const float value = samples[static_cast<size_t>(i)] - correlation * samples[static_cast<size_t>(i - 1)];
    whitened[static_cast<size_t>(i)] = value;
    squares += value * value;
    sum += value;
    moment += value * (static_cast<float>(i) - middle);
  }
  const double mean = static_cast<double>(sum) / model.rows();
  const double slope = static_cast<double>(moment) / model.slope_square();
  std::array<double, kMostAfter + 1> explained, weights;  // by samples after the onset
  double best = 0, later = 0;
  for (int i = count - 1; i > last; --i) later += whitened[static_cast<size_t>(i)];
  for (int onset = last; onset >= first; --onset) {
    const double value = whitened[static_cast<size_t>(onset)];
    const Whitened::Step step = model.StepAt(onset);
    const double covariance = value + model.gain() * later - step.sum * mean - step.along_slope * slope;
    double& one = explained[static_cast<size_t>(count - onset)];
    one = covariance < 0 ? covariance * covariance / step.beside_slope : 0;
    best = std::max(best, one);
    later += value;
  }
  if (best <= 0) return {};
  const double unexplained = squares - sum * mean - moment * slope - best;
  const double per_square = 0.5 * (count - 3) / std::max(unexplained, 1e-9);
  double total = 0;
  for (int onset = first; onset <= last; ++onset) {
    const auto after = static_cast<size_t>(count - onset);
    const double behind = (best - explained[after]) * per_square;
    weights[after] = behind < kMostBehind ? std::exp(static_cast<float>(-behind)) : 0;
    total += weights[after];
  }
  OnsetScan scan;
  double mass = 0;
  for (int onset = first; onset <= last && scan.onset < 0; ++onset) {
    mass += weights[static_cast<size_t>(count - onset)];
    if (mass >= total / 2) scan.onset = onset;
  }
  mass = 0;
  for (int i = std::max(first, scan.onset - kOnsetMargin); i <= std::min(last, scan.onset + kOnsetMargin);
       ++i) {
    mass += weights[static_cast<size_t>(count - i)];
  }
  scan.mass = static_cast<float>(mass / total);
  return scan;
}

// Two levels and the noise around them.
struct Fit {
  float before = 0, after = 0, scale = 0, correlation = 0;
};

void Refit(const Samples& samples, int count, int onset, float after, Fit& fit) {
  for (const float width : {kClip, 2.0F}) {
    const float limit = width * fit.scale;
    float sum = 0;
    for (int i = 0; i < onset; ++i)
      sum += Bounded(samples[static_cast<size_t>(i)] - fit.before, -limit, limit);
    fit.before += sum / static_cast<float>(onset);
  }
  fit.after = after;
  const float limit = kClip * fit.scale;
  Samples residuals;
  float deviation = 0, square = 0, lagged = 0;
  for (int i = 0; i < onset; ++i) {
    residuals[static_cast<size_t>(i)] = Bounded(samples[static_cast<size_t>(i)] - fit.before, -limit, limit);
  }
  for (int i = onset; i < count; ++i) {
    residuals[static_cast<size_t>(i)] = Bounded(samples[static_cast<size_t>(i)] - fit.after, -limit, limit);
  }
  for (int i = 0; i < count; ++i) deviation += std::abs(residuals[static_cast<size_t>(i)]);
  for (int i = 0; i < count; ++i)
    square += residuals[static_cast<size_t>(i)] * residuals[static_cast<size_t>(i)];
  for (int i = 1; i < count; ++i) {
    lagged += residuals[static_cast<size_t>(i)] * residuals[static_cast<size_t>(i - 1)];
  }
  lagged -= residuals[static_cast<size_t>(onset)] * residuals[static_cast<size_t>(onset - 1)];
  const auto n = static_cast<float>(count);
  fit.scale = std::max(kLeastScale, kMeanAbsToSd * deviation / n);
  // Levels fitted to the same samples hide some correlation; the added terms put it back.
  const float correlation = square > 0 ? lagged / square : 0;
  fit.correlation = Bounded((correlation * n + 1) / (n - 4), 0.0F, kMostCorrelation);
}

// One step of Huber's estimate from the fit, on whitened residuals.
void Contrast(const Samples& samples, int count, int onset, const Fit& fit, StepEvidence& evidence) {
  Samples whitened;
  const float limit = 4 * fit.scale;
  for (int i = 0; i < onset; ++i) {
    whitened[static_cast<size_t>(i)] = Bounded(samples[static_cast<size_t>(i)] - fit.before, -limit, limit);
  }
  for (int i = onset; i < count; ++i) {
    whitened[static_cast<size_t>(i)] = Bounded(samples[static_cast<size_t>(i)] - fit.after, -limit, limit);
  }
  for (int i = count - 1; i > 0; --i) {
    whitened[static_cast<size_t>(i)] -= fit.correlation * whitened[static_cast<size_t>(i - 1)];
  }
  float deviation = 0;
  for (int i = 1; i < count; ++i) {
    deviation += std::min(std::abs(whitened[static_cast<size_t>(i)]), kClip * fit.scale);
  }
  const Whitened model(count, fit.correlation);
  const float clip =
      kHuber * std::max(0.8F * kLeastScale, kMeanAbsToSd * deviation / static_cast<float>(model.rows()));
  float squares = 0, sum = 0, moment = 0, sum_after = 0;
  int unclipped = 0;
  const auto middle = static_cast<float>(model.middle());
  for (int i = 1; i < count; ++i) {
    const float value = whitened[static_cast<size_t>(i)];
    const float psi = Bounded(value, -clip, clip);
    unclipped += std::abs(value) < clip ? 1 : 0;
    squares += psi * psi;
    sum += psi;
    moment += psi * (static_cast<float>(i) - middle);
    whitened[static_cast<size_t>(i)] = psi;
  }
  for (int i = onset + 1; i < count; ++i) sum_after += whitened[static_cast<size_t>(i)];
  const double rows = model.rows();
  const double weight = std::max(0.2, unclipped / rows);
  const double deviation_of_one = std::sqrt(std::max(1e-12, squares / (rows - 3))) / weight;
  const Whitened::Step step = model.StepAt(onset);
  double covariance = whitened[static_cast<size_t>(onset)] + model.gain() * sum_after - step.sum * sum / rows;
  const auto t = [&](double square) {
    return static_cast<float>((evidence.shift - covariance / square / weight) * std::sqrt(square) /
                              deviation_of_one);
  };
  evidence.contrast = t(step.square);
  covariance -= step.along_slope * moment / model.slope_square();
  evidence.contrast_beside_slope = t(std::max(step.beside_slope, 1e-9));
}

void CountSides(const Samples& samples, int count, int onset, int least_after, const Fit& fit,
                StepEvidence& evidence) {
  const float midpoint = (fit.before + fit.after) / 2;
  int low = 0, settled = 0;
  for (int i = onset; i < count; ++i) {
    low += samples[static_cast<size_t>(i)] < midpoint ? 1 : 0;
    settled += std::abs(samples[static_cast<size_t>(i)] - fit.after) < 6 * fit.scale ? 1 : 0;
  }
  // The youngest step that may be weighed can have begun later still.
  if (count - onset == least_after) {
    while (evidence.still_high < least_after - 1 &&
           samples[static_cast<size_t>(onset + evidence.still_high)] >= midpoint) {
      ++evidence.still_high;
    }
  }
  for (int i = count - 3; i < count; ++i)
    evidence.newest_low += samples[static_cast<size_t>(i)] < midpoint ? 1 : 0;
  evidence.share_low = static_cast<float>(low) / static_cast<float>(count - onset);
  evidence.share_settled = static_cast<float>(settled) / static_cast<float>(count - onset);
}

// Turns and centres samples as the question wants them.
void Prepare(const StepQuestion& question, int count, Samples& samples) {
  const float sign = question.is_up ? -1 : 1;
  for (int i = 0; i < count; ++i) {
    float& sample = samples[static_cast<size_t>(i)];
    sample = sign * (sample - question.level);
  }
}

// Whether most of the newest samples lie below the running level at all.
bool AreNews(const StepQuestion& question) {
  Samples samples;
  question.window->CopyNewest(question.least_after, samples.data());
  Prepare(question, question.least_after, samples);
  int low = 0;
  for (int i = 0; i < question.least_after; ++i)
    low += samples[static_cast<size_t>(i)] <= -kLeastNews ? 1 : 0;
  return low > question.least_after / 2;
}

struct Suspicion {
  int after = 0;    // samples since the onset
  float level = 0;  // their mean
};

// The largest plain contrast of newest samples with the running level, when it is worth a closer look.
std::optional<Suspicion> FirstLook(const StepQuestion& question) {
  const int count = std::min(question.window->size(), SampleWindow::kRecent);
  Samples samples;
  question.window->CopyNewest(count, samples.data());
  Prepare(question, count, samples);
  const float news =
      MedianOf(&samples[static_cast<size_t>(count - question.least_after)], question.least_after);
  const float lowest = news - kClip * question.scale;
  const float highest = kClip * question.scale;
  float sum = 0;
  for (int after = 1; after < question.least_after; ++after) {
    sum += Bounded(samples[static_cast<size_t>(count - after)], lowest, highest);
  }
  float best = 0;
  Suspicion suspicion;
  for (int after = question.least_after; after <= count; ++after) {
    sum += Bounded(samples[static_cast<size_t>(count - after)], lowest, highest);
    const float low = std::min(sum, 0.0F);
    const float square = low * low * kReciprocals[static_cast<size_t>(after)];
    suspicion.after = square > best ? after : suspicion.after;
    suspicion.level = square > best ? sum : suspicion.level;
    best = std::max(square, best);
  }
  const float correction = std::sqrt((1 - question.correlation) / (1 + question.correlation));
  const float least = kLeastFirstLook * question.scale;
  if (best <= 0 || best * correction < least * least) return std::nullopt;
  suspicion.level /= static_cast<float>(suspicion.after);
  return suspicion;
}

}  // namespace

std::optional<StepEvidence> WeighStep(const StepQuestion& question) {
  const int count = question.window->size();
  if (count < question.least_after + kLeastBefore) return std::nullopt;
  if (!AreNews(question)) return std::nullopt;
  const std::optional<Suspicion> suspicion = FirstLook(question);
  if (!suspicion.has_value()) return std::nullopt;
  Samples samples;
  question.window->Copy(samples.data());
  Prepare(question, count, samples);
  const int first = std::max(kLeastBefore, count - kMostAfter);
  const int last = count - question.least_after;
  int onset = std::max(first, count - suspicion->after);

  Fit fit{0, 0, question.scale, question.correlation};
  Refit(samples, count, onset, suspicion->level, fit);
  if (fit.before - fit.after < kLeastShift) return std::nullopt;
  Samples clipped;
  const float low = std::min(fit.before, fit.after) - kClip * fit.scale;
  const float high = fit.before + kClip * fit.scale;
  for (int i = 0; i < count; ++i)
    clipped[static_cast<size_t>(i)] = Bounded(samples[static_cast<size_t>(i)], low, high);
  const OnsetScan scan = ScanOnsets(clipped, count, fit.correlation, first, last);
  if (scan.onset < 0) return std::nullopt;
  onset = scan.onset;
  Refit(samples, count, onset, MedianOf(&samples[static_cast<size_t>(onset)], count - onset), fit);

  const float level = question.is_up ? -question.level : question.level;
  StepEvidence evidence;
  evidence.before = onset;
  evidence.after = count - onset;
  evidence.level_before = level + fit.before;
  evidence.level_after = level + fit.after;
  evidence.shift = fit.before - fit.after;
  if (evidence.shift < kLeastShift) return std::nullopt;
  evidence.scale = fit.scale;
  evidence.correlation = fit.correlation;
  evidence.onset_mass = scan.mass;
  Contrast(samples, count, onset, fit, evidence);
  CountSides(samples, count, onset, question.least_after, fit, evidence);
  return evidence;
}

}  // namespace weft
