#include "bench/sim/strategy.h"

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bench/sim/fixed_floor.h"
#include "bench/sim/group_bisection.h"
#include "bench/sim/rotating_partner.h"
#include "bench/sim/two_pass.h"
#include "bench/sim/weft_strategy.h"

namespace weft::sim {

const std::vector<std::string>& StrategyNames() {
  static const auto& kNames =
      *new std::vector<std::string>{"weft", "two-pass", "rotating-partner", "fixed-floor", "group-bisection"};
  return kNames;
}

absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(absl::string_view name, const Scenario& scenario,
                                                       uint64_t seed) {
  if (name == "weft") return std::make_unique<WeftStrategy>(scenario);
  if (name == "two-pass") return std::make_unique<TwoPass>(scenario, seed);
  if (name == "rotating-partner") return std::make_unique<RotatingPartner>(scenario, seed);
  if (name == "fixed-floor") return std::make_unique<FixedFloor>(scenario);
  if (name == "group-bisection") return std::make_unique<GroupBisection>(scenario, seed);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown strategy \"", name, "\"; known: ", absl::StrJoin(StrategyNames(), ", ")));
}

size_t NodeIndex(absl::string_view id) {
  size_t index = 0;
  if (!absl::SimpleAtoi(id.substr(id.find('-') + 1), &index)) return kAll;
  return index;
}

}  // namespace weft::sim
