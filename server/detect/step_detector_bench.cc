// Cost of following one series: CPU, memory, and how many a core can follow. The series are like those of a
// fleet: half have a step, a third are correlated, a fifth follow the day.
#include <cmath>

#include "benchmark/benchmark.h"
#include "server/detect/step_detector.h"
#include "server/detect/test_series.h"

namespace weft {
namespace {

constexpr size_t kSamples = 500;
constexpr double kCadenceSeconds = 300;

std::vector<std::vector<double>> Fleet() {
  std::vector<std::vector<double>> fleet;
  for (uint64_t k = 0; k < 400; ++k) {
    MadeSeries what{
        .length = kSamples, .noise = 0.005 * std::exp2(static_cast<double>(k % 11) / 4), .seed = k + 1};
    if (k % 2 == 0) {
      what.onset = 60 + k % 380;
      what.step = 0.03 * std::exp2(static_cast<double>(k % 13) / 4);
    }
    if (k % 3 == 0) what.correlation = 0.5;
    if (k % 5 == 0) what.daily = 0.01;
    fleet.push_back(Make(what));
  }
  return fleet;
}

void BM_FollowSeries(benchmark::State& state) {
  const std::vector<std::vector<double>> fleet = Fleet();
  const StepDetector detector({});
  size_t series = 0, events = 0;
  for (auto _ : state) {
    StepState one;
    for (const double value : fleet[series++ % fleet.size()]) {
      events += detector.Observe(one, value).has_value() ? 1 : 0;
    }
    benchmark::DoNotOptimize(events);
  }
  const auto samples = static_cast<double>(state.iterations()) * kSamples;
  state.counters["bytes_per_series"] = sizeof(StepState);
  state.counters["series_per_core_at_5_minutes"] =
      benchmark::Counter(samples * kCadenceSeconds, benchmark::Counter::kIsRate);
}
BENCHMARK(BM_FollowSeries)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace weft

BENCHMARK_MAIN();
