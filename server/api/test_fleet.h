// For tests: a real store in a temporary folder, with a small fleet in it. Used by one thread.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "base/clock.h"
#include "server/api/fleet_view.h"
#include "server/api/queries.h"
#include "store/sqlite/sqlite_store.h"

namespace weft {

class TestFolder {
 public:
  TestFolder() : path_(std::filesystem::temp_directory_path() / "weft-test-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class TestFleet {
 public:
  // Tuesday.
  static absl::Time Start() {
    return absl::FromCivil(absl::CivilSecond(2026, 12, 1, 11, 0, 0), absl::UTCTimeZone());
  }

  explicit TestFleet(absl::Time now = Start()) : clock_(now), view_(now - absl::Hours(1)) {
    auto store = OpenSqliteStore({.path = folder_.path() + "/weft.db"});
    if (!store.ok()) std::abort();
    store_ = *std::move(store);
    QueriesOptions options;
    options.version = "0.1.0";
    options.stale_after = absl::Hours(1);
    options.on_windows_changed = [this] { ++windows_changed_; };
    options.on_node_removed = [this](const std::string& id, const std::string& note) { removed_[id] = note; };
    queries_ = std::make_unique<Queries>(*store_, view_, clock_, std::move(options));
  }

  Store& store() { return *store_; }
  FleetView& view() { return view_; }
  SimulatedClock& clock() { return clock_; }
  Queries& queries() { return *queries_; }
  int windows_changed() const { return windows_changed_; }
  // Notes by node id.
  const std::map<std::string, std::string>& removed() const { return removed_; }

  // A node that is known but not connected.
  void AddNode(const std::string& id, const std::string& hostname, const std::string& rack = "r1") {
    NodeRecord record;
    record.node.id = id;
    record.node.hostname = hostname;
    record.node.labels = {{"rack", rack}};
    record.first_seen = record.last_seen = clock_.Now();
    Must(store_->PutNode(record));
  }
  void ConnectAgent(const std::string& id) {
    view_.SetConnected(id, {clock_.Now(), absl::Milliseconds(5), 0});
  }
  // A finished run of two nodes, planned now, with an OK result of each.
  void AddRun(const std::string& id, const std::string& a, const std::string& b,
              double bytes_per_second = 25e9) {
    Run run;
    run.id = id;
    run.spec.name = "fabric_write";
    run.participants = {a, b};
    run.round = 7;
    run.plan_time = clock_.Now();
    Must(store_->PutRuns({run}));
    AddResult(id, a, 0, bytes_per_second);
    AddResult(id, b, 1, bytes_per_second);
    run.state = RunState::kOk;
    run.end_time = clock_.Now();
    Must(store_->FinishRuns({run}));
  }
  // Opens an episode; a drop in bandwidth, or a transient where nobody is to be told.
  Episode AddEpisode(const std::string& id, std::vector<std::string> node_ids,
                     FindingScope scope = FindingScope::kNode, Severity severity = Severity::kWarning) {
    Episode episode;
    episode.id = id;
    episode.finding.kind =
        severity == Severity::kInfo ? FindingKind::kTransient : FindingKind::kBandwidthDrop;
    episode.finding.scope = scope;
    episode.finding.node_ids = std::move(node_ids);
    episode.finding.probe = "fabric_write";
    episode.finding.severity = severity;
    episode.finding.ratio = 0.61;
    episode.finding.since = episode.open_time = clock_.Now();
    PutEpisode(episode);
    return episode;
  }
  void PutEpisode(const Episode& episode, std::vector<Delivery> deliveries = {}) {
    DetectionCommit commit;
    commit.episodes = {episode};
    commit.deliveries = std::move(deliveries);
    Must(store_->CommitDetection(commit));
  }

 private:
  static void Must(const absl::Status& status) {
    if (status.ok()) return;
    fprintf(stderr, "%s\n", status.ToString().c_str());
    std::abort();
  }

  void AddResult(const std::string& run, const std::string& node, uint32_t rank, double bytes_per_second) {
    ResultAppend append;
    append.node_id = node;
    append.epoch = "e";
    ResultAppend::Record& record = append.records.emplace_back();
    record.sequence = ++sequence_;
    record.result.run_id = run;
    record.result.node_id = node;
    record.result.rank = rank;
    record.result.outcome = Outcome::kOk;
    record.result.provider = "tcp;ofi_rxm";
    record.result.start_time = clock_.Now();
    Measurement& measurement = record.result.measurements.emplace_back();
    measurement.value = bytes_per_second;
    std::promise<absl::Status> done;
    Must(store_->AppendResults(append, [&](const auto& outcome) { done.set_value(outcome.status()); }));
    Must(done.get_future().get());
  }

  TestFolder folder_;
  SimulatedClock clock_;
  FleetView view_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Queries> queries_;
  uint64_t sequence_ = 0;
  int windows_changed_ = 0;
  std::map<std::string, std::string> removed_;
};

}  // namespace weft
