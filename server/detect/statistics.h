// Small robust statistics of plain values. Pure; any thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace weft {

inline constexpr double kMadToSd = 1.4826;  // of a normal law

// std::clamp by value, which compiles to two instructions without a jump: noise cannot be predicted.
inline float Bounded(float value, float least, float most) { return std::min(std::max(value, least), most); }

// The upper of the middle values; 0 for none. Reorders `values`.
inline double MiddleOf(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Middle distance from `centre`, scaled to a normal law's standard deviation; 0 for none.
inline double RobustScale(std::vector<double> values, double centre) {
  for (double& value : values) value = std::abs(value - centre);
  return kMadToSd * MiddleOf(values);
}

}  // namespace weft
