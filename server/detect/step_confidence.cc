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
constexpr double kBias = 0.97;
constexpr Features kLinear = {1.26, 2.56, 1.41, 1.07, 2.7, 7.5, 3.01, -3.05};
constexpr std::array<Features, kFeatures> kQuadratic = {{
    {-1.08, -0.78, 1.08, 3.89, -1.8, 1.17, -0.12, 0.31},  // contrast
    {0, -0.34, -0.41, -6.14, -1.4, 13.05, 5.16, 0.69},    // contrast beside a slope
    {0, 0, 0.03, -0.34, 1.55, 4.77, 0.46, -0.68},         // samples since
    {0, 0, 0, 3.11, -1.51, -1.65, -7.3, 1.15},            // correlation
    {0, 0, 0, 0, -0.2, 2.44, -0.91, 0.13},                // shift in percent
    {0, 0, 0, 0, 0, 12.96, -2.89, -4.06},                 // share of samples since that are low
    {0, 0, 0, 0, 0, 0, -0.4, 2.76},                       // onset mass
    {0, 0, 0, 0, 0, 0, 0, 1.8},                           // shift in scales
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
  return evidence.shift >= 0.02F && evidence.share_low >= 0.6F && evidence.share_settled >= 0.8F &&
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
  return profile == StepProfile::kFast ? 2.75 - 0.5 * age : 3.5 - 0.75 * age;
}

}  // namespace weft
