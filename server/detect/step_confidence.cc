#include "server/detect/step_confidence.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace weft {
namespace {

constexpr size_t kFeatures = 8;
using Features = std::array<double, kFeatures>;

// The fit, around a typical doubtful case: log odds = kBias + kLinear · f + f' kQuadratic f.
constexpr Features kTypical = {2.0, 1.5, 2.25, 0.3, 1.5, 0.9, 0.8, 0.7};
constexpr double kBias = 0.81;
constexpr Features kLinear = {0.83, 2.92, 1.66, 1.06, 2.98, 7.09, 2.63, -3.41};
constexpr std::array<Features, kFeatures> kQuadratic = {{
    {-1.13, -0.73, 1.18, 4.12, -1.49, -2.88, -0.07, -0.48},  // contrast
    {0, -0.23, -0.45, -5.27, -2.08, 14.09, 5.56, 1.27},      // contrast beside a slope
    {0, 0, 0.04, -0.65, 1.37, 6.53, 0.19, -0.71},            // samples since
    {0, 0, 0, 3.3, -1.03, -3.54, -7.42, 0.42},               // correlation
    {0, 0, 0, 0, 0.37, 1.65, -2.03, -0.4},                   // shift in percent
    {0, 0, 0, 0, 0, 16.54, -3.07, -1.53},                    // share of samples since that are low
    {0, 0, 0, 0, 0, 0, -0.85, 2.33},                         // onset mass
    {0, 0, 0, 0, 0, 0, 0, 2.27},                             // shift in scales
}};

// Beyond `most` the fit has seen nothing, and more of it makes nothing surer.
double BoundedLog(double value, double most) { return std::log(std::clamp(value, 0.3, most)); }

Features FeaturesOf(const StepEvidence& evidence) {
  return {BoundedLog(evidence.contrast, 50),
          BoundedLog(evidence.contrast_beside_slope, 50),
          BoundedLog(evidence.after, 60),
          evidence.correlation,
          BoundedLog(evidence.shift * 100, 30),
          evidence.share_low,
          evidence.onset_mass,
          BoundedLog(evidence.shift / evidence.scale, 20)};
}

}  // namespace

bool MayBeStep(const StepEvidence& evidence) {
  return evidence.shift >= 0.024F && evidence.share_low >= 0.6F && evidence.share_settled >= 0.8F &&
         evidence.newest_low >= 2 && evidence.contrast_beside_slope > 1.5F;
}

double StepLogOdds(const StepEvidence& evidence) {
  Features features = FeaturesOf(evidence);
  for (size_t i = 0; i < kFeatures; ++i) features[i] -= kTypical[i];
  double odds = kBias;
  for (size_t i = 0; i < kFeatures; ++i) {
    double slope = kLinear[i];
    for (size_t j = i; j < kFeatures; ++j) slope += kQuadratic[i][j] * features[j];
    odds += slope * features[i];
  }
  return odds;
}

double RequiredLogOdds(StepProfile profile, int samples_after) {
  const double age = std::log(samples_after / 8.0);
  return profile == StepProfile::kFast ? 2.9 - 0.5 * age : 3.25 - 0.6 * age;
}

}  // namespace weft
