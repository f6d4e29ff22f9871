// Made-up series for tests and benchmarks of step detection.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace weft {

struct MadeSeries {
  size_t length = 500;
  double level = 100;
  double noise = 0.01;       // of one sample, relative
  double correlation = 0;    // lag one
  size_t onset = 1'000'000;  // of a step
  double step = 0;           // share lost, below 0 for a rise
  size_t recovery = 1'000'000;
  double daily = 0;  // amplitude of a pattern of 144 samples, relative
  uint64_t seed = 1;
};

inline std::vector<double> Make(const MadeSeries& what) {
  std::mt19937_64 random(what.seed);
  std::normal_distribution<double> normal(0, 1);
  std::vector<double> values;
  double state = normal(random);
  for (size_t i = 0; i < what.length; ++i) {
    state = what.correlation * state + std::sqrt(1 - what.correlation * what.correlation) * normal(random);
    const double pattern = what.daily * std::sin(2 * 3.14159265358979 * static_cast<double>(i) / 144);
    const bool is_down = i >= what.onset && i < what.recovery;
    values.push_back(what.level * (1 + what.noise * state + pattern) * (is_down ? 1 - what.step : 1));
  }
  return values;
}

}  // namespace weft
