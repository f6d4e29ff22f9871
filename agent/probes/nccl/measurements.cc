#include "agent/probes/nccl/measurements.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "agent/probes/nccl/collective.h"

namespace weft::nccl {
namespace {

constexpr double kNanosecond = 1e-9;

// One communicator's share of a step.
struct Sample {
  std::string device;
  std::vector<uint64_t> own_ns;
  std::vector<uint64_t> all_ns;
  std::vector<uint32_t> all_ranks;  // numbers of those in all_ns, over all participants
};

double Mean(const std::vector<uint64_t>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::vector<Sample> Samples(const Parameters& parameters, const std::vector<uint64_t>& own,
                            const std::vector<uint64_t>& all) {
  std::vector<Sample> samples;
  if (!parameters.rail_split) {
    std::vector<uint32_t> numbers(all.size());
    std::iota(numbers.begin(), numbers.end(), 0U);
    return {{"all", own, all, numbers}};
  }
  for (size_t rail = 0; rail < own.size(); ++rail) {
    Sample sample = {absl::StrCat("rail", rail), {own[rail]}, {}, {}};
    for (size_t rank = rail; rank < all.size(); rank += own.size()) {
      sample.all_ns.push_back(all[rank]);
      sample.all_ranks.push_back(static_cast<uint32_t>(rank));
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

uint32_t ParticipantOf(const Ranks& ranks, uint32_t rank) {
  uint32_t participant = 0;
  while (rank >= ranks.gpus[participant]) rank -= ranks.gpus[participant++];
  return participant;
}

void AddSpread(const Ranks& ranks, const Sample& sample, double seconds_per_ns, v1::RankSpread* spread) {
  const auto slowest = std::max_element(sample.all_ns.begin(), sample.all_ns.end());
  const uint32_t rank = sample.all_ranks[static_cast<size_t>(slowest - sample.all_ns.begin())];
  spread->set_count(static_cast<uint32_t>(sample.all_ns.size()));
  spread->set_min_seconds(static_cast<double>(*std::min_element(sample.all_ns.begin(), sample.all_ns.end())) *
                          seconds_per_ns);
  spread->set_mean_seconds(Mean(sample.all_ns) * seconds_per_ns);
  spread->set_max_seconds(static_cast<double>(*slowest) * seconds_per_ns);
  spread->set_slowest_rank(rank);
  spread->set_slowest_participant(ParticipantOf(ranks, rank));
}

}  // namespace

std::vector<v1::Measurement> MakeMeasurements(const Parameters& parameters, const Ranks& ranks,
                                              const StepTimes& times) {
  const auto comm_ranks = parameters.rail_split ? static_cast<uint32_t>(ranks.gpus.size()) : ranks.total();
  std::vector<v1::Measurement> measurements;
  for (size_t i = 0; i < parameters.steps.size(); ++i) {
    const Step& step = parameters.steps[i];
    if (step.kind != StepKind::kTimed) continue;
    const auto layout = LayOut(parameters.collective, parameters.data_type, step.message_bytes, comm_ranks);
    if (!layout.ok()) continue;
    const std::vector<uint64_t> none;
    for (const Sample& sample :
         Samples(parameters, times.own_ns[i], times.all_ns.empty() ? none : times.all_ns[i])) {
      const double per_collective = kNanosecond / times.iterations[i];
      const double seconds = Mean(sample.own_ns) * per_collective;
      const double bandwidth = static_cast<double>(layout->base_bytes) / seconds;
      const auto add = [&](v1::Metric metric, double value) {
        v1::Measurement& m = measurements.emplace_back();
        m.set_metric(metric);
        m.set_value(value);
        m.set_device(sample.device);
        m.set_message_size_bytes(step.message_bytes);
        m.set_moved_bytes(layout->base_bytes * times.iterations[i]);
        m.set_elapsed_seconds(seconds * times.iterations[i]);
        m.set_in_place(step.in_place);
        m.set_iterations(times.iterations[i]);
      };
      add(v1::METRIC_BUS_BANDWIDTH, bandwidth * BusFactor(parameters.collective, comm_ranks));
      v1::Measurement& first = measurements.back();
      for (const uint64_t ns : sample.own_ns)
        first.add_own_rank_seconds(static_cast<double>(ns) * per_collective);
      if (!sample.all_ns.empty()) AddSpread(ranks, sample, per_collective, first.mutable_ranks());
      if (parameters.rail_split) continue;
      add(v1::METRIC_ALGORITHM_BANDWIDTH, bandwidth);
      add(v1::METRIC_COLLECTIVE_TIME, seconds);
    }
  }
  return measurements;
}

}  // namespace weft::nccl
