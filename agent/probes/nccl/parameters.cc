#include "agent/probes/nccl/parameters.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "agent/probes/nccl/collective.h"
#include "agent/probes/process/ticks.h"
#include "base/crc32c.h"

namespace weft::nccl {
namespace {

constexpr uint64_t kDefaultMessageBytes = 1ULL << 30;
constexpr uint32_t kDefaultIterations = 20;
constexpr uint32_t kDefaultWarmUp = 5;
constexpr int64_t kDefaultDeadline = 60 * kSecond;

template <typename T>
T OrDefault(T value, T fallback) {
  return value == T{} ? fallback : value;
}

int64_t Ticks(const google::protobuf::Duration& duration) {
  return OrDefault(duration.seconds() * kSecond + duration.nanos(), kDefaultDeadline);
}

std::vector<bool> Placements(const v1::NcclProbe& probe) {
  switch (probe.placement()) {
    case v1::NCCL_PLACEMENT_IN_PLACE:
      return {true};
    case v1::NCCL_PLACEMENT_BOTH:
      return {false, true};
    default:
      return {false};
  }
}

std::vector<Step> MakeSteps(const v1::NcclProbe& probe, const std::vector<uint64_t>& sizes) {
  std::vector<Step> steps = {{StepKind::kConnect}};
  for (const uint64_t size : sizes)
    for (const bool in_place : Placements(probe)) {
      const auto add = [&](StepKind kind, uint32_t iterations) {
        steps.push_back({kind, size, in_place, iterations});
      };
      add(StepKind::kWarmUp, OrDefault(probe.warm_up_iterations(), kDefaultWarmUp));
      add(StepKind::kTimed, OrDefault(probe.iterations(), kDefaultIterations));
      if (!probe.skip_data_check()) add(StepKind::kCheck, 1);
    }
  return steps;
}

uint32_t DigestOf(const Parameters& p) {
  std::string text =
      absl::StrCat(kFormulaVersion, "|", static_cast<int>(p.collective), "|", static_cast<int>(p.data_type),
                   "|", p.host_timing, "|", p.rail_split, "|", p.require_network);
  for (const Step& step : p.steps)
    absl::StrAppend(&text, "|", static_cast<int>(step.kind), ",", step.message_bytes, ",", step.in_place, ",",
                    step.iterations);
  return Crc32c(text);
}

}  // namespace

std::string StepName(const Step& step) {
  const char* const kinds[] = {"connect", "warm_up", "timed", "check"};
  std::string name = kinds[static_cast<size_t>(step.kind)];
  if (step.kind != StepKind::kConnect)
    absl::StrAppend(&name, " ", step.message_bytes, " B", step.in_place ? " in place" : "");
  return name;
}

Parameters MakeParameters(const v1::NcclProbe& probe) {
  Parameters p;
  p.collective = OrDefault(probe.collective(), v1::NCCL_COLLECTIVE_ALL_GATHER);
  p.data_type = OrDefault(probe.data_type(), v1::NCCL_DATA_TYPE_FLOAT32);
  p.host_timing = probe.timing() == v1::NCCL_TIMING_HOST;
  p.rail_split = probe.rail_split();
  p.require_network = probe.require_network();
  p.init_ticks = Ticks(probe.init_deadline());
  p.step_ticks = Ticks(probe.size_deadline());
  std::vector<uint64_t> sizes(probe.message_size_bytes().begin(), probe.message_size_bytes().end());
  if (sizes.empty()) sizes.push_back(kDefaultMessageBytes);
  p.max_message_bytes = *std::max_element(sizes.begin(), sizes.end());
  p.steps = MakeSteps(probe, sizes);
  p.digest = DigestOf(p);
  return p;
}

}  // namespace weft::nccl
