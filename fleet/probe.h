// Probes, runs and results. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "fleet/transport.h"

namespace weft {

// Point-to-point bandwidth and latency through libfabric. Field meanings and bounds:
// proto/weft/v1/probe.proto.
struct FabricProbe {
  std::string provider;
  std::string domain;
  std::vector<uint64_t> message_size_bytes;
  uint32_t window = 0;
  uint64_t bytes_per_size = 0;
  uint32_t latency_iterations = 0;
  bool skip_latency = false;
  bool skip_bandwidth = false;
  bool gpu_memory = false;
  bool operator==(const FabricProbe&) const = default;
};

// A probe of GPUs. Only agents read its parameters.
struct GpuProbe {
  std::string kind;        // as Hello.probe_kinds names it: "nccl" or "gpu_copy"
  std::string parameters;  // serialised weft.v1.NcclProbe or GpuCopyProbe
  bool operator==(const GpuProbe&) const = default;
};

struct ProbeSpec {
  std::string name;  // as operators see it; the key of its series
  std::variant<FabricProbe, GpuProbe> kind;
  bool operator==(const ProbeSpec&) const = default;
};

enum class Metric {
  kWriteBandwidth = 1,      // bytes per second
  kLatency = 2,             // seconds, half a round trip
  kBusBandwidth = 3,        // bytes per second as nccl-tests has it
  kAlgorithmBandwidth = 4,  // bytes per second
  kCollectiveTime = 5,      // seconds
  kCopyBandwidth = 6,       // bytes per second
};

// What a node's health is judged by.
inline bool IsLinkBandwidth(Metric metric) {
  return metric == Metric::kWriteBandwidth || metric == Metric::kBusBandwidth;
}

// Seconds per collective over all ranks of a communicator.
struct RankSpread {
  uint32_t count = 0;
  double min_seconds = 0, mean_seconds = 0, max_seconds = 0;
  uint32_t slowest_rank = 0;
  uint32_t slowest_participant = 0;
  bool operator==(const RankSpread&) const = default;
};

struct Distribution {
  double min = 0, p10 = 0, p50 = 0, p90 = 0, p99 = 0, max = 0;
  uint64_t count = 0;
  bool operator==(const Distribution&) const = default;
};

struct Measurement {
  Metric metric = Metric::kWriteBandwidth;
  double value = 0;  // in the unit of the metric; finite, not negative
  std::string device;
  uint64_t message_size_bytes = 0;
  uint64_t moved_bytes = 0;
  double elapsed_seconds = 0;
  Distribution distribution;
  bool in_place = false;
  uint32_t iterations = 0;
  std::vector<double> own_rank_seconds = {};
  std::optional<RankSpread> ranks = {};
  bool operator==(const Measurement&) const = default;
};

enum class Outcome {
  kOk = 1,
  kFailed = 2,
  kTimedOut = 3,
  kSkippedBusy = 4,
  kSkippedMaintenance = 5,
  kRefused = 6,
  kPartnerMissing = 7,
  kYielded = 8,
};

// What one participant reports of one run.
struct Result {
  std::string run_id;
  std::string node_id;
  uint32_t rank = 0;
  Outcome outcome = Outcome::kFailed;
  std::string detail;
  std::string phase;
  std::vector<uint32_t> missing_ranks;
  std::vector<Measurement> measurements;
  std::string provider;
  absl::Time start_time = absl::InfinitePast();  // agent's wall clock; never used for order
  absl::Duration elapsed = absl::ZeroDuration();
  std::string stack_fingerprint;
  bool emulated_link = false;
  std::string tool_output;
  std::optional<TransportProof> transport = {};  // nullopt: nobody looked
  absl::Duration yield_latency = absl::ZeroDuration();
  std::string nccl = {};  // a serialised weft.v1.NcclReport, for people alone; empty for other probes
  bool operator==(const Result&) const = default;
};

enum class RunState { kActive = 1, kOk = 2, kFailed = 3, kSkipped = 4, kTimedOut = 5 };

// One execution of a probe. participants[rank] is a node id.
struct Run {
  std::string id;  // time-ordered UUID
  ProbeSpec spec;
  std::vector<std::string> participants;
  std::string cohort;
  uint64_t round = 0;
  absl::Time plan_time = absl::InfinitePast();
  absl::Time end_time = absl::InfiniteFuture();  // InfiniteFuture while active
  RunState state = RunState::kActive;
  std::string detail;
  bool in_maintenance = false;  // a participant was in a window when planned; never trains a baseline
  bool operator==(const Run&) const = default;
};

// A stored result joined with its run: what detection and history read.
struct StoredResult {
  int64_t id = 0;  // rises in commit order; the detector's cursor
  Result result;
  std::string probe;                      // ProbeSpec::name
  std::vector<std::string> participants;  // by rank
  std::string cohort;
  uint64_t round = 0;
  absl::Time plan_time;  // server clock
  bool in_maintenance = false;
};

}  // namespace weft
