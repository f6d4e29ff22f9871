#include "server/http/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "convert/convert.h"
#include "server/http/operations_routes.h"
#include "server/http/testing.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kNow = absl::FromUnixSeconds(1'780'000'000);

v1::NodeStatus Node(const std::string& id, const std::string& hostname, v1::NodeState state) {
  v1::NodeStatus node;
  node.mutable_node()->set_node_id(id);
  node.mutable_node()->set_hostname(hostname);
  node.set_state(state);
  ToProto(kNow - absl::Seconds(5), node.mutable_last_seen_time());
  return node;
}

NodeLevel Level(const std::string& id, double observed, double expected, absl::Time time = kNow) {
  return {id, "fabric_write", Metric::kWriteBandwidth, observed, expected, time};
}

MetricsSnapshot Snapshot() {
  MetricsSnapshot snapshot;
  snapshot.now = kNow;
  snapshot.version = "1.2.3";
  snapshot.start_time = kNow - absl::Hours(1);
  snapshot.resident_bytes = 30'000'000;
  snapshot.nodes = {Node("1", "gpu-1", v1::NODE_STATE_OK), Node("2", "gpu-2", v1::NODE_STATE_DEGRADED)};
  snapshot.levels = {Level("1", 100e6, 100e6), Level("2", 50e6, 100e6)};
  snapshot.probe_periods = {{"fabric_write", absl::Minutes(15)}};
  snapshot.store = StoreStats{10, 2, 4096, 512};
  snapshot.detector_lag = absl::Seconds(2);
  snapshot.webhook_queue = {{"pager", 0}};
  snapshot.sources = {{"store", true}};
  return snapshot;
}

MetricCountersOptions Configured() { return {.probes = {"fabric_write"}, .receivers = {"pager"}}; }

std::string Render(const MetricsSnapshot& snapshot) {
  return RenderMetrics(snapshot, MetricCounters(Configured()));
}

// Series names with labels; fails on one that comes twice, which Prometheus refuses.
std::set<std::string> SeriesOf(const std::string& page) {
  std::set<std::string> series;
  for (absl::string_view line : absl::StrSplit(page, '\n', absl::SkipEmpty())) {
    if (absl::StartsWith(line, "#")) continue;
    const std::string name(line.substr(0, line.rfind(' ')));
    EXPECT_TRUE(series.insert(name).second) << name << " comes twice";
  }
  return series;
}

std::string Promtool(const std::string& page) {
  testing::TemporaryFolder folder;
  const std::string path = folder.path() + "/metrics";
  std::ofstream(path) << page;
  std::string output;
  const int status = testing::RunProgram({"sh", "-c", "promtool check metrics < " + path}, &output);
  return status == 0 ? output : "exit status " + std::to_string(status) + ": " + output;
}

TEST(MetricsTest, ShowsBandwidthExpectedAndRatioByNodeAndProbe) {
  const std::string page = Render(Snapshot());
  const std::string labels = R"({node="gpu-2",probe="fabric_write"} )";
  EXPECT_THAT(page, HasSubstr("weft_probe_bus_bandwidth_bytes_per_second" + labels + "50000000\n"));
  EXPECT_THAT(page, HasSubstr("weft_probe_expected_bandwidth_bytes_per_second" + labels + "100000000\n"));
  EXPECT_THAT(page, HasSubstr("weft_probe_bandwidth_ratio" + labels + "0.5\n"));
  EXPECT_THAT(page, HasSubstr("weft_probe_last_success_timestamp_seconds" + labels + "1780000000\n"));
}

TEST(MetricsTest, ALevelOlderThanThreePeriodsIsWithdrawnButItsTimeStays) {
  MetricsSnapshot snapshot = Snapshot();
  snapshot.levels = {Level("1", 1, 1, kNow - absl::Minutes(45)), Level("2", 1, 1, kNow - absl::Minutes(46))};
  const std::string page = Render(snapshot);
  EXPECT_THAT(page, HasSubstr(R"(weft_probe_bandwidth_ratio{node="gpu-1")"));
  EXPECT_THAT(page, Not(HasSubstr(R"(weft_probe_bandwidth_ratio{node="gpu-2")")));
  EXPECT_THAT(page, Not(HasSubstr(R"(weft_probe_bus_bandwidth_bytes_per_second{node="gpu-2")")));
  EXPECT_THAT(page, HasSubstr(R"(weft_probe_last_run_timestamp_seconds{node="gpu-2")"));
}

TEST(MetricsTest, AnUnknownExpectationIsNotShownAsZero) {
  MetricsSnapshot snapshot = Snapshot();
  snapshot.levels = {Level("1", 100e6, 0)};
  const std::string page = Render(snapshot);
  EXPECT_THAT(page, HasSubstr(R"(weft_probe_bus_bandwidth_bytes_per_second{node="gpu-1")"));
  EXPECT_THAT(page, Not(HasSubstr("weft_probe_expected_bandwidth_bytes_per_second{")));
  EXPECT_THAT(page, Not(HasSubstr("weft_probe_bandwidth_ratio{")));
}

TEST(MetricsTest, StatesAreCountedAndMissingDataIsNeverOk) {
  MetricsSnapshot snapshot = Snapshot();
  snapshot.nodes.push_back(Node("3", "gpu-3", v1::NODE_STATE_UNSPECIFIED));
  snapshot.nodes.push_back(Node("4", "gpu-4", v1::NODE_STATE_STALE));
  snapshot.nodes.push_back(Node("5", "gpu-5", v1::NODE_STATE_MISSING));
  snapshot.nodes.push_back(Node("6", "gpu-6", v1::NODE_STATE_DEGRADED));
  snapshot.nodes.back().set_muted(true);
  const std::string page = Render(snapshot);
  EXPECT_THAT(page, HasSubstr("weft_node_state_id{node=\"gpu-1\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("weft_node_state_id{node=\"gpu-2\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("weft_node_state_id{node=\"gpu-3\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("weft_node_state_id{node=\"gpu-4\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("weft_node_state_id{node=\"gpu-5\"} 3\n"));
  EXPECT_THAT(page, HasSubstr("weft_node_state_id{node=\"gpu-6\"} 4\n"));
  EXPECT_THAT(page, HasSubstr("weft_nodes{state=\"unknown\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("weft_nodes{state=\"muted\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("weft_node_muted{node=\"gpu-6\"} 1\n"));
}

TEST(MetricsTest, CountersThatMayComeStandAtZeroFromTheStart) {
  const std::string page = Render(Snapshot());
  EXPECT_THAT(page, HasSubstr("weft_ingest_results_total 0\n"));
  EXPECT_THAT(page, HasSubstr("weft_ingest_rejected_total{reason=\"bad_number\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("weft_ingest_rejected_total{reason=\"unknown_run\"} 0\n"));
  EXPECT_THAT(page,
              HasSubstr("weft_regressions_active{scope=\"pair\",severity=\"critical\",muted=\"true\"} 0\n"));
  const auto series = SeriesOf(page);
  EXPECT_TRUE(series.contains("weft_webhook_deliveries_total{outcome=\"dead\",receiver=\"pager\"}")) << page;
  EXPECT_TRUE(series.contains("weft_regressions_detected_total{probe=\"fabric_write\",scope=\"node\"}"));
}

TEST(MetricsTest, ReasonsByTheirEnumNameAreTheSameSeries) {
  MetricsSnapshot snapshot = Snapshot();
  snapshot.rejected = {{"REJECT_REASON_BAD_NUMBER", 2}, {"bad_number", 1}};
  EXPECT_THAT(Render(snapshot), HasSubstr("weft_ingest_rejected_total{reason=\"bad_number\"} 3\n"));
}

TEST(MetricsTest, ARunShowsAllOutcomesOfItsNodeAndProbe) {
  MetricCounters counters(Configured());
  counters.CountRun("gpu-1", "fabric_write", Outcome::kTimedOut, kNow + absl::Minutes(1));
  const std::string page = RenderMetrics(Snapshot(), counters);
  const auto runs = [&](const std::string& outcome) {
    return "weft_probe_runs_total{node=\"gpu-1\",outcome=\"" + outcome + "\",probe=\"fabric_write\"} ";
  };
  EXPECT_THAT(page, HasSubstr(runs("timeout") + "1\n"));
  EXPECT_THAT(page, HasSubstr(runs("ok") + "0\n"));
  EXPECT_THAT(page, HasSubstr("weft_probe_last_run_timestamp_seconds{node=\"gpu-1\",probe=\"fabric_write\"} "
                              "1780000060\n"));
  EXPECT_THAT(page, HasSubstr("weft_probe_last_success_timestamp_seconds{node=\"gpu-1\","
                              "probe=\"fabric_write\"} 1780000000\n"));
}

TEST(MetricsTest, SeriesOfRunsAreBounded) {
  MetricCounters counters({.probes = {}, .receivers = {}, .max_node_probes = 2});
  for (int i = 0; i < 5; ++i) counters.CountRun("gpu-" + std::to_string(i), "p", Outcome::kOk, kNow);
  const std::string page = RenderMetrics(Snapshot(), counters);
  EXPECT_THAT(page, HasSubstr("weft_probe_runs_uncounted_total 3\n"));
  EXPECT_THAT(page, Not(HasSubstr("weft_probe_runs_total{node=\"gpu-2\"")));
}

TEST(MetricsTest, OfNodesThatShareAHostnameTheLatestStandsForIt) {
  MetricsSnapshot snapshot = Snapshot();
  snapshot.nodes = {Node("old", "gpu-1", v1::NODE_STATE_MISSING), Node("new", "gpu-1", v1::NODE_STATE_OK)};
  ToProto(kNow - absl::Hours(1), snapshot.nodes[0].mutable_last_seen_time());
  snapshot.levels = {Level("old", 1e6, 1e6), Level("new", 2e6, 2e6)};
  const std::string page = Render(snapshot);
  SeriesOf(page);
  EXPECT_THAT(page, HasSubstr("weft_node_state_id{node=\"gpu-1\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("weft_probe_bus_bandwidth_bytes_per_second{node=\"gpu-1\","
                              "probe=\"fabric_write\"} 2000000\n"));
}

TEST(MetricsTest, APartThatCannotBeReadIsMissingAndSaidSo) {
  MetricsSnapshot snapshot = Snapshot();
  snapshot.store.reset();
  snapshot.detector_lag.reset();
  snapshot.sources = {{"store", false}};
  const std::string page = Render(snapshot);
  EXPECT_THAT(page, HasSubstr("weft_metrics_source_up{source=\"store\"} 0\n"));
  EXPECT_THAT(page, Not(HasSubstr("weft_store_bytes")));
  EXPECT_THAT(page, Not(HasSubstr("weft_detector_lag_seconds")));
  EXPECT_THAT(page, HasSubstr("weft_nodes{"));
}

TEST(MetricsTest, NamesFromOutsideCannotBreakThePage) {
  MetricsSnapshot snapshot = Snapshot();
  const std::string nasty = "a\"} 1\nevil{x=\"\\\xff\xfe";
  snapshot.nodes = {Node("1", "gpu-1", v1::NODE_STATE_OK), Node("2", "gpu-2", v1::NODE_STATE_OK)};
  snapshot.version = nasty;
  (*snapshot.nodes[0].mutable_node()->mutable_labels())["rack"] = "r\"\\\n1";
  snapshot.webhook_queue = {{nasty, 1}};
  MetricCounters counters({.probes = {nasty}, .receivers = {nasty}});
  counters.CountRun(nasty, nasty, Outcome::kOk, kNow);
  counters.CountRegression(FindingScope::kNode, nasty);
  counters.CountDelivery(nasty, DeliveryOutcome::kDelivered, kNow);
  const std::string page = RenderMetrics(snapshot, counters);
  SeriesOf(page);
  EXPECT_THAT(page, Not(HasSubstr("\nevil")));
  if (!testing::IsInstalled("promtool")) GTEST_SKIP() << "promtool is not installed";
  EXPECT_EQ(Promtool(page), "");
}

TEST(MetricsTest, PromtoolHasNothingToSay) {
  if (!testing::IsInstalled("promtool")) GTEST_SKIP() << "promtool is not installed";
  MetricsSnapshot snapshot = Snapshot();
  v1::MaintenanceWindow window;
  window.set_window_id("mw-1");
  snapshot.windows = {window};
  MetricCounters counters(Configured());
  counters.CountRun("gpu-1", "fabric_write", Outcome::kOk, kNow);
  counters.CountDelivery("pager", DeliveryOutcome::kDelivered, kNow);
  EXPECT_EQ(Promtool(RenderMetrics(snapshot, counters)), "");
}

TEST(MetricsTest, PromtoolWouldNoticeABadName) {
  if (!testing::IsInstalled("promtool")) GTEST_SKIP() << "promtool is not installed";
  EXPECT_NE(Promtool("# HELP a_seconds b\n# TYPE a_seconds counter\na_seconds 1\n"), "");
}

TEST(MetricsTest, LoopsMayCountWhileThePageIsRendered) {
  MetricCounters counters(Configured());
  std::vector<std::thread> loops;
  for (int i = 0; i < 4; ++i) {
    loops.emplace_back([&counters, i] {
      for (int n = 0; n < 200; ++n) {
        counters.CountRun("gpu-" + std::to_string(i), "fabric_write", Outcome::kOk, kNow);
        counters.CountIngested(1);
      }
    });
  }
  for (int i = 0; i < 10; ++i) SeriesOf(RenderMetrics(Snapshot(), counters));
  for (std::thread& loop : loops) loop.join();
  EXPECT_THAT(RenderMetrics(Snapshot(), counters), HasSubstr("weft_ingest_results_total 800\n"));
}

TEST(MetricsTest, APageOfAFleetGrowsWithNodesAndStaysSmall) {
  constexpr size_t kNodes = 2000;
  MetricsSnapshot snapshot = Snapshot();
  MetricCounters counters(Configured());
  snapshot.nodes.clear();
  snapshot.levels.clear();
  for (size_t i = 0; i < kNodes; ++i) {
    const std::string name = "gpu-" + std::to_string(i);
    snapshot.nodes.push_back(Node(name, name, v1::NODE_STATE_OK));
    snapshot.levels.push_back(Level(name, 50e9, 51e9));
    counters.CountRun(name, "fabric_write", Outcome::kOk, kNow);
  }
  const std::string page = RenderMetrics(snapshot, counters);
  const size_t per_node = 4 + 5 + 8;  // of the node; of node and probe; outcomes
  EXPECT_LE(SeriesOf(page).size(), kNodes * per_node + 200);
  EXPECT_LE(page.size(), kNodes * 2000);
}

TEST(DiscoveryTest, ListsTheServerAsTheClientReachedIt) {
  const std::string json = DiscoveryJson("weft.example:7480", {});
  EXPECT_THAT(json, HasSubstr(R"("targets":["weft.example:7480"])"));
  EXPECT_THAT(json, HasSubstr(R"("labels":{"__meta_weft_role":"server"})"));
}

TEST(DiscoveryTest, ListsAgentsThatReportAnAddress) {
  v1::NodeStatus node = Node("1", "gpu-1", v1::NODE_STATE_OK);
  (*node.mutable_node()->mutable_versions())["metrics_address"] = "0.0.0.0:9101";
  v1::NodeStatus other = Node("2", "gpu-2", v1::NODE_STATE_OK);
  (*other.mutable_node()->mutable_labels())["metrics_address"] = "10.0.0.2:9101";
  const std::string json = DiscoveryJson("", {node, other, Node("3", "gpu-3", v1::NODE_STATE_OK)});
  EXPECT_THAT(json, HasSubstr(R"("gpu-1:9101")"));
  EXPECT_THAT(json, HasSubstr(R"("10.0.0.2:9101")"));
  EXPECT_THAT(json, Not(HasSubstr("gpu-3")));
}

TEST(DiscoveryTest, LeavesOutWhatIsNoAddressAndIsAListEvenWhenEmpty) {
  v1::NodeStatus node = Node("1", "gpu-1", v1::NODE_STATE_OK);
  for (const char* address : {"x", "user@h:1", ":1", "h:0", "h:", "h:99999999", "http://h:1/", "h:1\n"}) {
    EXPECT_EQ(DiscoveryJson(address, {}), "[]") << address;
    if (std::string(address) == ":1") continue;  // of a node: all of its addresses
    (*node.mutable_node()->mutable_labels())["metrics_address"] = address;
    EXPECT_EQ(DiscoveryJson("", {node}), "[]") << address;
  }
}

}  // namespace
}  // namespace weft
