#include "server/detect/step_evidence.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "server/detect/sample_window.h"

namespace weft {
namespace {

constexpr int kCapacity = SampleWindow::kCapacity;
constexpr int kMostAfter = 60;           // older onsets are history, not news
constexpr int kLeastBefore = 12;         // samples that make a level
constexpr float kLeastShift = 0.015F;    // of the level, logs
constexpr float kLeastFirstLook = 3.5F;  // contrast, half corrected for correlation
constexpr float kClip = 3;               // scales; beyond them a sample is a dip
constexpr float kHuber = 1.5F;           // scales of the whitened residual
constexpr float kLeastScale = 0.001F;
constexpr float kMeanAbsToSd = 1.2533F;
constexpr float kMostCorrelation = 0.85F;
constexpr int kOnsetMargin = 5;
constexpr double kMostBehind =
    10;  // log likelihood; what is further behind the best onset counts as impossible

using Samples = std::array<float, kCapacity>;
using Sums = std::array<double, kCapacity + 1>;

float MedianOf(const float* from, int count) {
  Samples copy;
  std::copy(from, from + count, copy.begin());
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
  Sums sums, moments;
  sums[1] = moments[1] = 0;
  double squares = 0;
  for (int i = 1; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    const double value = samples[at] - correlation * samples[at - 1];
    sums[at + 1] = sums[at] + value;
    moments[at + 1] = moments[at] + value * i;
    squares += value * value;
  }
  const double sum = sums[static_cast<size_t>(count)];
  const double moment = moments[static_cast<size_t>(count)] - model.middle() * sum;
  const double unexplained = squares - sum * sum / model.rows() - moment * moment / model.slope_square();
  Sums explained;
  double best = 0;
  for (int onset = first; onset <= last; ++onset) {
    const auto at = static_cast<size_t>(onset);
    const Whitened::Step step = model.StepAt(onset);
    const double product = sums[at + 1] - sums[at] + model.gain() * (sum - sums[at + 1]);
    const double covariance =
        product - step.sum * sum / model.rows() - moment * step.along_slope / model.slope_square();
    explained[at] = covariance < 0 ? covariance * covariance / step.beside_slope : 0;
    best = std::max(best, explained[at]);
  }
  if (best <= 0) return {};
  const double per_square = 0.5 * (count - 3) / std::max(unexplained - best, 1e-9);
  Sums weights;
  double total = 0;
  for (int onset = first; onset <= last; ++onset) {
    const auto at = static_cast<size_t>(onset);
    const double behind = (best - explained[at]) * per_square;
    weights[at] = behind < kMostBehind ? std::exp(-behind) : 0;
    total += weights[at];
  }
  OnsetScan scan;
  double mass = 0;
  for (int onset = first; onset <= last && scan.onset < 0; ++onset) {
    mass += weights[static_cast<size_t>(onset)];
    if (mass >= total / 2) scan.onset = onset;
  }
  mass = 0;
  for (int i = std::max(first, scan.onset - kOnsetMargin); i <= std::min(last, scan.onset + kOnsetMargin);
       ++i) {
    mass += weights[static_cast<size_t>(i)];
  }
  scan.mass = static_cast<float>(mass / total);
  return scan;
}

// Two levels and the noise around them.
struct Fit {
  float before = 0, after = 0, scale = 0, correlation = 0;
};

void Refit(const Samples& samples, int count, int onset, Fit& fit) {
  for (const float width : {kClip, 2.0F}) {
    const float limit = width * fit.scale;
    float sum = 0;
    for (int i = 0; i < onset; ++i)
      sum += std::clamp(samples[static_cast<size_t>(i)] - fit.before, -limit, limit);
    fit.before += sum / static_cast<float>(onset);
  }
  fit.after = MedianOf(&samples[static_cast<size_t>(onset)], count - onset);
  const float limit = kClip * fit.scale;
  Samples residuals;
  float deviation = 0, square = 0, lagged = 0;
  for (int i = 0; i < onset; ++i) {
    residuals[static_cast<size_t>(i)] =
        std::clamp(samples[static_cast<size_t>(i)] - fit.before, -limit, limit);
  }
  for (int i = onset; i < count; ++i) {
    residuals[static_cast<size_t>(i)] =
        std::clamp(samples[static_cast<size_t>(i)] - fit.after, -limit, limit);
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
  fit.correlation = std::clamp((correlation * n + 1) / (n - 4), 0.0F, kMostCorrelation);
}

// One step of Huber's estimate from the fit, on whitened residuals.
void Contrast(const Samples& samples, int count, int onset, const Fit& fit, StepEvidence& evidence) {
  Samples whitened;
  const float limit = 4 * fit.scale;
  for (int i = 0; i < onset; ++i) {
    whitened[static_cast<size_t>(i)] =
        std::clamp(samples[static_cast<size_t>(i)] - fit.before, -limit, limit);
  }
  for (int i = onset; i < count; ++i) {
    whitened[static_cast<size_t>(i)] = std::clamp(samples[static_cast<size_t>(i)] - fit.after, -limit, limit);
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
    const float psi = std::clamp(value, -clip, clip);
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

void CountSides(const Samples& samples, int count, int onset, const Fit& fit, StepEvidence& evidence) {
  const float midpoint = (fit.before + fit.after) / 2;
  int low = 0, settled = 0, low_before = 0;
  for (int i = 0; i < onset; ++i) low_before += samples[static_cast<size_t>(i)] < midpoint ? 1 : 0;
  for (int i = onset; i < count; ++i) {
    low += samples[static_cast<size_t>(i)] < midpoint ? 1 : 0;
    settled += std::abs(samples[static_cast<size_t>(i)] - fit.after) < 6 * fit.scale ? 1 : 0;
  }
  for (int i = count - 3; i < count; ++i)
    evidence.newest_low += samples[static_cast<size_t>(i)] < midpoint ? 1 : 0;
  evidence.share_low = static_cast<float>(low) / static_cast<float>(count - onset);
  evidence.share_settled = static_cast<float>(settled) / static_cast<float>(count - onset);
  evidence.share_low_before = (static_cast<float>(low_before) + 0.5F) / static_cast<float>(onset + 1);
}

// The onset of the largest plain contrast with the running level, or -1 when none is worth a closer look.
int FirstLook(const Samples& samples, const StepQuestion& question, float news, int first) {
  const float lowest = news - kClip * question.scale;
  const float highest = kClip * question.scale;
  float sum = 0, best = 0;
  int onset = -1;
  for (int i = question.count - 1; i >= first; --i) {
    sum += std::clamp(samples[static_cast<size_t>(i)], lowest, highest);
    const int after = question.count - i;
    const float square = sum * sum;
    if (after < question.least_after || sum >= 0 || square <= best * static_cast<float>(after)) continue;
    best = square / static_cast<float>(after);
    onset = i;
  }
  const float correction = std::sqrt((1 - question.correlation) / (1 + question.correlation));
  const float least = kLeastFirstLook * question.scale;
  return best * correction >= least * least ? onset : -1;
}

}  // namespace

std::optional<StepEvidence> WeighStep(const StepQuestion& question) {
  const int count = question.count;
  if (count < question.least_after + kLeastBefore) return std::nullopt;
  const float news =
      MedianOf(question.samples + count - question.least_after, question.least_after) - question.level;
  const int first = std::max(kLeastBefore, count - kMostAfter);
  const int last = count - question.least_after;
  Samples samples;
  for (int i = 0; i < count; ++i) samples[static_cast<size_t>(i)] = question.samples[i] - question.level;
  int onset = FirstLook(samples, question, news, first);
  if (onset < 0) return std::nullopt;

  Fit fit{0, 0, question.scale, question.correlation};
  Refit(samples, count, onset, fit);
  if (fit.before - fit.after < kLeastShift) return std::nullopt;
  Samples clipped;
  const float low = std::min(fit.before, fit.after) - kClip * fit.scale;
  const float high = fit.before + kClip * fit.scale;
  for (int i = 0; i < count; ++i)
    clipped[static_cast<size_t>(i)] = std::clamp(samples[static_cast<size_t>(i)], low, high);
  const OnsetScan scan = ScanOnsets(clipped, count, fit.correlation, first, last);
  if (scan.onset < 0) return std::nullopt;
  onset = scan.onset;
  Refit(samples, count, onset, fit);

  StepEvidence evidence;
  evidence.before = onset;
  evidence.after = count - onset;
  evidence.level_before = question.level + fit.before;
  evidence.level_after = question.level + fit.after;
  evidence.shift = fit.before - fit.after;
  if (evidence.shift < kLeastShift) return std::nullopt;
  evidence.scale = fit.scale;
  evidence.correlation = fit.correlation;
  evidence.onset_mass = scan.mass;
  Contrast(samples, count, onset, fit, evidence);
  CountSides(samples, count, onset, fit, evidence);
  return evidence;
}

}  // namespace weft
