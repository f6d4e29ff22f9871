// Cost of one result and of one series. Arguments: nodes in the fleet.
#include "benchmark/benchmark.h"
#include "server/detect/detector.h"
#include "server/detect/simulated_fleet.h"

namespace weft {
namespace {

std::vector<StoredResult> Results(size_t nodes, int rounds) {
  SimulatedFleetOptions options;
  options.nodes = nodes;
  options.dip_rate = 0.01;
  SimulatedFleet fleet(options);
  std::vector<StoredResult> results;
  for (int i = 0; i < rounds; ++i) {
    fleet.PlayRound([&](const StoredResult& result) { results.push_back(result); });
  }
  return results;
}

void BM_Observe(benchmark::State& state) {
  const auto nodes = static_cast<size_t>(state.range(0));
  const std::vector<StoredResult> warm_up = Results(nodes, 20);
  const std::vector<StoredResult> all = Results(nodes, 60);
  const std::vector<StoredResult> timed(all.begin() + static_cast<std::ptrdiff_t>(warm_up.size()), all.end());
  for (auto _ : state) {
    state.PauseTiming();
    Detector detector{DetectorOptions{}};
    for (size_t i = 0; i < warm_up.size(); ++i) detector.Observe(all[i]);
    state.ResumeTiming();
    for (const StoredResult& result : timed) detector.Observe(result);
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * timed.size()));
  state.counters["s_per_result"] =
      benchmark::Counter(static_cast<double>(state.iterations() * timed.size()),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_Observe)->Arg(8)->Arg(64)->Arg(1024)->Unit(benchmark::kMillisecond);

void BM_BytesPerSeries(benchmark::State& state) {
  const auto nodes = static_cast<size_t>(state.range(0));
  const std::vector<StoredResult> results = Results(nodes, 60);
  size_t bytes = 0;
  for (auto _ : state) {
    Detector detector{DetectorOptions{}};
    for (const StoredResult& result : results) detector.Observe(result);
    bytes = 0;
    for (const DetectorState& one : detector.TakeChangedStates()) bytes += one.key.size() + one.blob.size();
  }
  state.counters["stored_bytes_per_series"] = static_cast<double>(bytes) / static_cast<double>(nodes);
}
BENCHMARK(BM_BytesPerSeries)->Arg(64)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace weft

BENCHMARK_MAIN();
