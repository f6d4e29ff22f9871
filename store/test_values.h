// Values that tests of stores put in, with every field set.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "store/store.h"

namespace weft {

inline absl::Time TestTime(int minutes) { return absl::FromUnixSeconds(1767225600) + absl::Minutes(minutes); }

// A run of probe "fabric" between node-a and node-b, planned `minutes` after the first.
inline Run TestRun(const std::string& id, int minutes = 0, uint64_t round = 1) {
  Run run;
  run.id = id;
  run.spec = {"fabric", FabricProbe{"tcp;ofi_rxm", "eth0", {1 << 20}, 64, 1 << 26, 1000, false, true}};
  run.participants = {"node-a", "node-b"};
  run.cohort = "rack-1";
  run.round = round;
  run.plan_time = TestTime(minutes);
  run.in_maintenance = minutes % 2 == 1;
  return run;
}

// A run in which node-a holds all ranks: one run takes many results.
inline Run WideRun(const std::string& id, size_t ranks) {
  Run run = TestRun(id);
  run.participants.assign(ranks, "node-a");
  return run;
}

inline Result TestResult(const std::string& run_id, const std::string& node_id = "node-a",
                         uint32_t rank = 0) {
  Result result;
  result.run_id = run_id;
  result.node_id = node_id;
  result.rank = rank;
  result.outcome = Outcome::kOk;
  result.phase = "write";
  result.missing_ranks = {3, 4};
  result.measurements = {
      {Metric::kWriteBandwidth, 24.5e9, "eth0", 1 << 20, 1 << 26, 0.25, {1, 2, 3, 4, 5, 6, 64}}};
  result.provider = "tcp;ofi_rxm";
  result.start_time = TestTime(7);
  result.elapsed = absl::Milliseconds(1500);
  result.stack_fingerprint = "libfabric 1.17";
  result.emulated_link = true;
  result.tool_output = std::string("\xff\0raw", 5);
  return result;
}

inline Episode TestEpisode(const std::string& id, const std::string& node_id,
                           const std::vector<std::string>& run_ids) {
  Episode episode;
  episode.id = id;
  episode.finding.node_ids = {node_id};
  episode.finding.probe = "fabric";
  episode.finding.ratio = 0.5;
  episode.finding.observed = 12e9;
  episode.finding.expected = 24e9;
  episode.finding.confidence = 0.75;
  episode.finding.since = TestTime(1);
  episode.finding.summary = "slow";
  for (const std::string& run_id : run_ids) {
    episode.finding.evidence.push_back({run_id, TestTime(2), "node-b", 12e9, 24e9, Metric::kLatency});
  }
  episode.open_time = TestTime(3);
  episode.muted_by = {"mw-1"};
  episode.notified = true;
  return episode;
}

inline Delivery TestDelivery(const std::string& id, const std::string& episode_id, uint32_t sequence) {
  Delivery delivery;
  delivery.id = id;
  delivery.receiver = "pager";
  delivery.episode_id = episode_id;
  delivery.sequence = sequence;
  delivery.body = std::string("{\"\xff\0\"}", 6);
  delivery.create_time = TestTime(4);
  return delivery;
}

inline MaintenanceWindow TestWindow(const std::string& id, const std::string& request_id = "") {
  MaintenanceWindow window;
  window.id = id;
  window.matchers = {{"rack", MatchOperator::kGlob, {"r1*"}}};
  window.schedule = OneOff{TestTime(0), TestTime(60)};
  window.reason = "cables";
  window.created_by = "ann";
  window.create_time = TestTime(0);
  window.request_id = request_id;
  return window;
}

// Appends and waits for the outcome.
inline absl::StatusOr<ResultAppendOutcome> AppendAndWait(Store& store, ResultAppend append) {
  // Shared: the waiter may be gone before set_value has returned.
  const auto promise = std::make_shared<std::promise<absl::StatusOr<ResultAppendOutcome>>>();
  const absl::Status queued = store.AppendResults(
      std::move(append),
      [promise](absl::StatusOr<ResultAppendOutcome> outcome) { promise->set_value(std::move(outcome)); });
  if (!queued.ok()) return queued;
  return promise->get_future().get();
}

}  // namespace weft
