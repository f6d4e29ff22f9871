#include "bench/sim/simulation.h"

#include <algorithm>
#include <utility>

#include "bench/sim/episode_book.h"
#include "bench/sim/world.h"

namespace weft::sim {
namespace {

class Simulation {
 public:
  Simulation(const Scenario& scenario, uint64_t seed, Strategy& strategy)
      : scenario_(scenario),
        strategy_(strategy),
        world_(scenario, seed),
        book_(scenario),
        scorer_(scenario) {}

  absl::StatusOr<Played> Run() {
    const absl::Time end = kStart + scenario_.length();
    auto restart = scenario_.restarts.begin();
    for (absl::Time now = kStart; now < end; now += scenario_.period) {
      for (; restart != scenario_.restarts.end() && kStart + *restart <= now; ++restart) {
        if (absl::Status status = strategy_.Restart(); !status.ok()) return status;
      }
      PlayRound(now);
    }
    played_.score = scorer_.Finish();
    return std::move(played_);
  }

 private:
  void PlayRound(absl::Time begin) {
    ++played_.rounds;
    const absl::Time end = begin + scenario_.period;
    for (absl::Time now = begin; now + scenario_.run_time <= end; now += scenario_.run_time) {
      world_.AdvanceTo(now);
      if (now == begin) scorer_.BeginRound(now - kStart, Busy());
      const std::vector<weft::Run> runs = strategy_.Plan(Candidates(), now == begin, now);
      if (runs.empty()) break;
      for (const weft::Run& run : runs) Play(run, now);
    }
    book_.Step(strategy_.Findings(), end);
    scorer_.Judge(end - kStart, book_.open());
  }

  std::vector<bool> Busy() const {
    std::vector<bool> busy(scenario_.nodes);
    for (size_t node = 0; node < busy.size(); ++node) busy[node] = world_.IsBusy(node);
    return busy;
  }

  std::vector<Candidate> Candidates() const {
    std::vector<Candidate> candidates;
    for (size_t node = 0; node < scenario_.nodes; ++node) {
      if (strategy_.KnowsBusy() && world_.IsBusy(node)) continue;
      candidates.push_back({node, world_.IsInMaintenance(node)});
    }
    return candidates;
  }

  void Play(const weft::Run& run, absl::Time now) {
    PlayedRun played{run, {}, {}};
    for (const std::string& id : run.participants) played.nodes.push_back(NodeIndex(id));
    if (std::any_of(played.nodes.begin(), played.nodes.end(),
                    [this](size_t node) { return world_.IsBusy(node); })) {
      ++played_.declined;
      return;
    }
    ++played_.probes;
    played_.probe_time += scenario_.run_time * static_cast<int64_t>(played.nodes.size());
    scorer_.CountRun(now - kStart, played.nodes);
    played.results = world_.Play(run, played.nodes);
    strategy_.Observe(played);
  }

  const Scenario& scenario_;
  Strategy& strategy_;
  World world_;
  EpisodeBook book_;
  Scorer scorer_;
  Played played_;
};

}  // namespace

absl::StatusOr<Played> Simulate(const Scenario& scenario, uint64_t seed, Strategy& strategy) {
  return Simulation(scenario, seed, strategy).Run();
}

}  // namespace weft::sim
