// What weft-sim simulates, as plain values, and its YAML (scenario.proto says what each key means). Times are
// after the start of the scenario. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace weft::sim {

inline constexpr size_t kAll = SIZE_MAX;  // no rail in particular

enum class FaultKind {
  kNode = 1,
  kNic = 2,
  kLeaf = 3,
  kUplink = 4,
  kPair = 5,
  kDrift = 6,
  kFlapping = 7,
  kTransient = 8,
  kFleet = 9,
  kFailing = 10,
};

absl::string_view NameOf(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kNode;
  size_t node = 0;
  size_t peer = 0;
  size_t rail = kAll;
  size_t leaf = 0;
  absl::Duration onset;
  absl::Duration end;
  double size = 0;
  absl::Duration ramp;
  absl::Duration flap_period;
  double flap_share = 0.5;

  bool IsActive(absl::Duration time) const { return time >= onset && time < end; }
  // Share of the capacity that is left at `time`, 0 to 1; not of a failing node.
  double Left(absl::Duration time) const;
  bool operator==(const Fault&) const = default;
};

struct StackUpgrade {
  absl::Duration at;
  absl::Duration over;
  double change = 0;
  bool operator==(const StackUpgrade&) const = default;
};

struct Maintenance {
  absl::Duration start;
  absl::Duration end;
  size_t first_node = 0;
  size_t nodes = 0;
  double size = 0;
  absl::Duration work_end;  // the nodes are well again; not after the end

  bool Covers(size_t node) const { return node >= first_node && node < first_node + nodes; }
  bool operator==(const Maintenance&) const = default;
};

enum class Cabling { kFlat = 1, kRails = 2 };

struct Scenario {
  size_t nodes = 64;
  size_t rails = 8;
  size_t leaves = 8;
  Cabling cabling = Cabling::kFlat;
  size_t days = 7;
  absl::Duration period = absl::Minutes(15);
  absl::Duration run_time = absl::Seconds(4);
  size_t max_concurrent_runs = 16;
  double bandwidth = 48.5e9;  // bytes per second
  double noise = 0.015;
  double node_spread = 0.006;
  double dip_rate = 0.01;
  double least_dip = 0.1;
  double deepest_dip = 0.4;
  double daily_swing = 0.01;
  double busy_share = 0.4;
  absl::Duration job_time = absl::Hours(3);
  bool planner_knows_busy = false;
  std::vector<Fault> faults;
  std::vector<StackUpgrade> stack_upgrades;
  std::vector<Maintenance> maintenance;
  std::vector<absl::Duration> restarts;

  absl::Duration length() const { return absl::Hours(24) * static_cast<int64_t>(days); }
  size_t LeafOf(size_t node, size_t rail) const;
  bool operator==(const Scenario&) const = default;
};

// Ids as findings name them.
std::string NodeId(size_t node);
std::string NicName(size_t rail);
std::string LeafName(size_t leaf);

// kInvalidArgument lists all problems, one a line, with `name` and where it can be told the line.
absl::StatusOr<Scenario> ParseScenario(absl::string_view yaml, absl::string_view name);
// Gives the same scenario when parsed, times to the second.
std::string ToYaml(const Scenario& scenario);

}  // namespace weft::sim
