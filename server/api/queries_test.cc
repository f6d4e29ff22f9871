#include "server/api/queries.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/api/test_fleet.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

constexpr char kNodeA[] = "00000000-0000-4000-8000-00000000000a";
constexpr char kNodeB[] = "00000000-0000-4000-8000-00000000000b";
constexpr char kNodeC[] = "00000000-0000-4000-8000-00000000000c";

template <typename T>
std::string Message(const absl::StatusOr<T>& result) {
  return std::string(result.status().message());
}

v1::NodeStatus NodeOf(TestFleet& fleet, const std::string& name) {
  v1::GetNodeRequest request;
  request.set_node(name);
  auto response = fleet.queries().GetNode(request);
  EXPECT_TRUE(response.ok()) << response.status();
  return response.ok() ? response->node() : v1::NodeStatus();
}

// Nodes a, b and c in racks r1, r1 and r2; a and b are connected and ran together now.
void Populate(TestFleet& fleet) {
  fleet.AddNode(kNodeA, "gpu001");
  fleet.AddNode(kNodeB, "gpu002");
  fleet.AddNode(kNodeC, "gpu003", "r2");
  fleet.ConnectAgent(kNodeA);
  fleet.ConnectAgent(kNodeB);
  fleet.AddRun("run-1", kNodeA, kNodeB);
}

// --- Node state ---

TEST(NodeStateTest, ConnectedMeasuredAndBlamelessIsOk) {
  TestFleet fleet;
  Populate(fleet);
  const v1::NodeStatus status = NodeOf(fleet, "gpu001");
  EXPECT_EQ(status.state(), v1::NODE_STATE_OK);
  EXPECT_TRUE(status.connected());
  EXPECT_FALSE(status.muted());
  EXPECT_EQ(status.clock_offset().nanos(), 5000000);
  EXPECT_EQ(status.coverage_age().seconds(), 0);
}

TEST(NodeStateTest, WithoutAStreamItIsMissingWhateverElseIsKnown) {
  TestFleet fleet;
  Populate(fleet);
  EXPECT_EQ(NodeOf(fleet, "gpu003").state(), v1::NODE_STATE_MISSING);
  fleet.view().SetDisconnected(kNodeA);
  EXPECT_EQ(NodeOf(fleet, "gpu001").state(), v1::NODE_STATE_MISSING);
}

TEST(FleetViewTest, WhoLeftIsRememberedAsLastHeardOf) {
  FleetView view(absl::UnixEpoch());
  const absl::Time heard = absl::FromUnixSeconds(100);
  view.SetConnected("a", {heard});
  view.SetDisconnected("a");
  EXPECT_EQ(view.LastHeard().at("a"), heard);
  EXPECT_EQ(view.ConnectedCount(), 0u);
}

TEST(NodeStateTest, ConnectedButNeverMeasuredIsUnspecified) {
  TestFleet fleet;
  Populate(fleet);
  fleet.ConnectAgent(kNodeC);
  const v1::NodeStatus status = NodeOf(fleet, "gpu003");
  EXPECT_EQ(status.state(), v1::NODE_STATE_UNSPECIFIED);
  EXPECT_FALSE(status.has_coverage_age());
  EXPECT_FALSE(status.has_last_success_time());
}

TEST(NodeStateTest, AnOldGoodResultIsStale) {
  TestFleet fleet;
  Populate(fleet);
  fleet.clock().Advance(absl::Minutes(61));
  const v1::NodeStatus status = NodeOf(fleet, "gpu001");
  EXPECT_EQ(status.state(), v1::NODE_STATE_STALE);
  EXPECT_EQ(status.coverage_age().seconds(), 61 * 60);
}

TEST(NodeStateTest, AnOpenFindingOfItsOwnDegradesIt) {
  TestFleet fleet;
  Populate(fleet);
  fleet.AddEpisode("e1", {kNodeA});
  const v1::NodeStatus status = NodeOf(fleet, "gpu001");
  EXPECT_EQ(status.state(), v1::NODE_STATE_DEGRADED);
  EXPECT_THAT(status.finding_ids(), ElementsAre("e1"));
  EXPECT_EQ(NodeOf(fleet, "gpu002").state(), v1::NODE_STATE_OK);
}

TEST(NodeStateTest, PathsAreListedAndNotesAreNotAndNeitherDegrades) {
  TestFleet fleet;
  Populate(fleet);
  fleet.AddEpisode("e1", {kNodeA, kNodeB}, FindingScope::kPair);
  fleet.AddEpisode("e2", {kNodeA}, FindingScope::kNode, Severity::kInfo);
  const v1::NodeStatus status = NodeOf(fleet, "gpu001");
  EXPECT_EQ(status.state(), v1::NODE_STATE_OK);
  EXPECT_THAT(status.finding_ids(), ElementsAre("e1"));
}

TEST(NodeStatusTest, ShowsTheWorstFreshLevelAgainstItsExpectation) {
  TestFleet fleet;
  Populate(fleet);
  const absl::Time now = fleet.clock().Now();
  const auto level = [&](const char* probe, double observed, double expected, absl::Duration age) {
    return NodeLevel{kNodeA, probe, Metric::kWriteBandwidth, observed, expected, now - age};
  };
  fleet.view().SetLevels({level("fine", 10e9, 10e9, absl::Minutes(1)),
                          level("slow", 6e9, 10e9, absl::Minutes(2)),
                          level("new", 1e9, 0, absl::ZeroDuration()),
                          level("old", 1e9, 10e9, absl::Hours(3)),
                          {kNodeA, "slow", Metric::kLatency, 1e-6, 1e-5, now}});
  const v1::NodeStatus status = NodeOf(fleet, "gpu001");
  EXPECT_DOUBLE_EQ(status.bandwidth_ratio(), 0.6);
  EXPECT_DOUBLE_EQ(status.bandwidth_bytes_per_second(), 6e9);
  EXPECT_DOUBLE_EQ(status.expected_bandwidth_bytes_per_second(), 10e9);
}

// --- Finding nodes ---

TEST(GetNodeTest, TakesIdsAndHostnames) {
  TestFleet fleet;
  Populate(fleet);
  EXPECT_EQ(NodeOf(fleet, kNodeB).node().hostname(), "gpu002");
  EXPECT_EQ(NodeOf(fleet, "gpu002").node().node_id(), kNodeB);
}

TEST(GetNodeTest, AnUnknownNodeIsNotFoundWithNearOnes) {
  TestFleet fleet;
  Populate(fleet);
  v1::GetNodeRequest request;
  request.set_node("gpu01");
  const auto response = fleet.queries().GetNode(request);
  EXPECT_EQ(response.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(response), HasSubstr("Did you mean gpu001"));
}

TEST(GetNodeTest, OfTwoNodesOfOneHostnameTheConnectedOneIsMeant) {
  TestFleet fleet;
  fleet.AddNode("id-old", "gpu001");
  fleet.AddNode("id-new", "gpu001");
  v1::GetNodeRequest request;
  request.set_node("gpu001");
  EXPECT_EQ(fleet.queries().GetNode(request).status().code(), absl::StatusCode::kInvalidArgument);
  fleet.ConnectAgent("id-new");
  EXPECT_EQ(fleet.queries().GetNode(request)->node().node().node_id(), "id-new");
  fleet.ConnectAgent("id-old");
  EXPECT_EQ(fleet.queries().GetNode(request).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RemoveNodeTest, ANodeThatIsAwayIsForgottenAndItsFindingsAreToldWhoDidIt) {
  TestFleet fleet;
  fleet.AddNode("id-1", "gpu001");
  fleet.AddNode("id-2", "gpu002");
  fleet.AddEpisode("e1", {"id-1"});
  fleet.AddEpisode("e2", {"id-1", "id-2"}, FindingScope::kPair);
  fleet.AddEpisode("e3", {"id-2"});
  v1::RemoveNodeRequest request;
  request.set_node("gpu001");
  EXPECT_EQ(fleet.queries().RemoveNode(request).status().code(), absl::StatusCode::kInvalidArgument)
      << "who?";
  request.set_removed_by("ann");
  const auto response = fleet.queries().RemoveNode(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->node().hostname(), "gpu001");
  EXPECT_EQ(response->closed_findings(), 2u);
  EXPECT_EQ(fleet.store().ListNodes()->size(), 1u);
  EXPECT_EQ(fleet.removed().at("id-1"), "node gpu001 removed by ann");
  EXPECT_EQ(fleet.queries().RemoveNode(request).status().code(), absl::StatusCode::kNotFound);
}

TEST(RemoveNodeTest, AConnectedNodeIsKeptAndItsForgottenNamesakeIsNamed) {
  TestFleet fleet;
  fleet.AddNode("id-old", "gpu001");
  fleet.AddNode("id-new", "gpu001");
  fleet.ConnectAgent("id-new");
  v1::RemoveNodeRequest request;
  request.set_node("gpu001");
  request.set_removed_by("ann");
  const absl::Status refused = fleet.queries().RemoveNode(request).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), AllOf(HasSubstr("(id-new) is connected"),
                                                    HasSubstr("of the same hostname: id-old; to remove it")));
  EXPECT_EQ(fleet.store().ListNodes()->size(), 2u);
  EXPECT_TRUE(fleet.removed().empty());
  request.set_node("id-old");
  EXPECT_TRUE(fleet.queries().RemoveNode(request).ok());
}

TEST(GetNodeTest, AHostnameOfTwoNodesIsRefusedWithTheirIds) {
  TestFleet fleet;
  Populate(fleet);
  fleet.AddNode(kNodeC, "gpu001");
  fleet.ConnectAgent(kNodeC);
  v1::GetNodeRequest request;
  request.set_node("gpu001");
  const auto response = fleet.queries().GetNode(request);
  EXPECT_EQ(response.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(response), ::testing::AllOf(HasSubstr(kNodeA), HasSubstr(kNodeC)));
}

TEST(GetNodeTest, EmptyAndOverlongNamesAreRefused) {
  TestFleet fleet;
  for (const std::string& name : {std::string(), std::string(254, 'a')}) {
    v1::GetNodeRequest request;
    request.set_node(name);
    EXPECT_EQ(fleet.queries().GetNode(request).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

// --- Paging ---

// All hostnames, read in pages of `size`.
std::vector<std::string> AllHostnames(TestFleet& fleet, int size) {
  std::vector<std::string> names;
  v1::ListNodesRequest request;
  request.set_page_size(size);
  do {
    const auto page = fleet.queries().ListNodes(request);
    if (!page.ok()) return {page.status().ToString()};
    EXPECT_LE(page->nodes_size(), size);
    for (const v1::NodeStatus& each : page->nodes()) names.push_back(each.node().hostname());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  return names;
}

TEST(PagingTest, PagesOfEverySizeGiveTheSameNodesInOrder) {
  TestFleet fleet;
  std::vector<std::string> expected;
  for (int i = 0; i < 7; ++i) {
    expected.push_back(absl::StrFormat("gpu%03d", i));
    fleet.AddNode(absl::StrCat("id-", 9 - i), expected.back());
  }
  for (int size = 1; size <= 8; ++size) EXPECT_EQ(AllHostnames(fleet, size), expected) << size;
}

TEST(PagingTest, RunsAndHistoryContinueWhereThePageEnded) {
  TestFleet fleet;
  Populate(fleet);
  for (int i = 2; i <= 5; ++i) fleet.AddRun(absl::StrCat("run-", i), kNodeA, kNodeB);
  v1::ListRunsRequest runs;
  v1::ListNodeHistoryRequest history;
  runs.set_page_size(2);
  history.set_page_size(2);
  history.set_node("gpu001");
  std::vector<std::string> run_ids, history_ids;
  for (int page = 0; page < 3; ++page) {
    const auto some_runs = fleet.queries().ListRuns(runs);
    ASSERT_TRUE(some_runs.ok()) << some_runs.status();
    for (const v1::Run& run : some_runs->runs()) run_ids.push_back(run.run_id());
    runs.set_page_token(some_runs->next_page_token());
    const auto points = fleet.queries().ListNodeHistory(history);
    ASSERT_TRUE(points.ok()) << points.status();
    for (const v1::HistoryPoint& point : points->points()) history_ids.push_back(point.run_id());
    history.set_page_token(points->next_page_token());
  }
  EXPECT_THAT(run_ids, ElementsAre("run-5", "run-4", "run-3", "run-2", "run-1"));
  EXPECT_EQ(history_ids, run_ids);
  EXPECT_EQ(runs.page_token(), "");
  EXPECT_EQ(history.page_token(), "");
}

TEST(PagingTest, SizesOutOfRangeAndForeignTokensAreRefused) {
  TestFleet fleet;
  Populate(fleet);
  v1::ListNodesRequest request;
  for (const int size : {-1, 1001}) {
    request.set_page_size(size);
    const auto response = fleet.queries().ListNodes(request);
    EXPECT_EQ(response.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(response), HasSubstr("1000"));
  }
  request.set_page_size(1);
  const std::string token = fleet.queries().ListNodes(request)->next_page_token();
  ASSERT_NE(token, "");
  v1::ListRunsRequest runs;
  for (const std::string& bad : {token, std::string("x"), std::string("AAAA"), std::string(5000, 'A')}) {
    runs.set_page_token(bad);
    EXPECT_EQ(fleet.queries().ListRuns(runs).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(PagingTest, AFullAnswerEndsThePageEarly) {
  TestFleet fleet;
  Populate(fleet);
  NodeRecord record;
  for (int i = 0; i < 5; ++i) {
    record.node.id = absl::StrCat("id-", i);
    record.node.hostname = absl::StrCat("big", i);
    record.node.labels["blob"] = std::string(1 << 20, 'x');
    ASSERT_EQ(fleet.store().PutNode(record), absl::OkStatus());
  }
  const auto page = fleet.queries().ListNodes({});
  ASSERT_TRUE(page.ok());
  EXPECT_LT(page->ByteSizeLong(), size_t{4} << 20);
  EXPECT_NE(page->next_page_token(), "");
  EXPECT_EQ(AllHostnames(fleet, 100).size(), 8u);
}

// --- Slow nodes, history, runs, status ---

TEST(ListSlowNodesTest, WorstFirstBelowTheRatioOnly) {
  TestFleet fleet;
  Populate(fleet);
  const absl::Time now = fleet.clock().Now();
  fleet.view().SetLevels({{kNodeA, "p", Metric::kWriteBandwidth, 8e9, 10e9, now},
                          {kNodeB, "p", Metric::kWriteBandwidth, 3e9, 10e9, now},
                          {kNodeC, "p", Metric::kWriteBandwidth, 95e8, 10e9, now}});
  v1::ListSlowNodesRequest request;
  request.set_page_size(1);
  const auto first = fleet.queries().ListSlowNodes(request);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(first->nodes_size(), 1);
  EXPECT_EQ(first->nodes(0).node().hostname(), "gpu002");
  request.set_page_token(first->next_page_token());
  const auto second = fleet.queries().ListSlowNodes(request);
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_EQ(second->nodes_size(), 1);
  EXPECT_EQ(second->nodes(0).node().hostname(), "gpu001");
  EXPECT_EQ(second->next_page_token(), "");
}

TEST(ListSlowNodesTest, RatiosOutOfRangeAreRefused) {
  TestFleet fleet;
  for (const double bad :
       {-0.1, 1.01, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    v1::ListSlowNodesRequest request;
    request.set_below_ratio(bad);
    EXPECT_EQ(fleet.queries().ListSlowNodes(request).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(ListNodeHistoryTest, NamesThePeerAndObeysSince) {
  TestFleet fleet;
  Populate(fleet);
  fleet.clock().Advance(absl::Hours(2));
  fleet.AddRun("run-2", kNodeB, kNodeA, 12e9);
  v1::ListNodeHistoryRequest request;
  request.set_node("gpu001");
  request.mutable_since_time()->set_seconds(absl::ToUnixSeconds(fleet.clock().Now()) - 60);
  const auto response = fleet.queries().ListNodeHistory(request);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->points_size(), 1);
  const v1::HistoryPoint& point = response->points(0);
  EXPECT_EQ(point.run_id(), "run-2");
  EXPECT_EQ(point.peer_node_id(), kNodeB);
  EXPECT_EQ(point.peer_hostname(), "gpu002");
  EXPECT_EQ(point.outcome(), v1::OUTCOME_OK);
  ASSERT_EQ(point.measurements_size(), 1);
  EXPECT_EQ(point.measurements(0).value(), 12e9);
  request.mutable_since_time()->set_seconds(int64_t{1} << 60);
  EXPECT_EQ(fleet.queries().ListNodeHistory(request).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ListRunsTest, CarriesHostnamesAndResultsByRank) {
  TestFleet fleet;
  Populate(fleet);
  v1::ListRunsRequest request;
  request.set_node("gpu002");
  const auto response = fleet.queries().ListRuns(request);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->runs_size(), 1);
  const v1::Run& run = response->runs(0);
  EXPECT_EQ(run.state(), v1::RUN_STATE_OK);
  ASSERT_EQ(run.participants_size(), 2);
  EXPECT_EQ(run.participants(1).hostname(), "gpu002");
  EXPECT_EQ(run.participants(1).result().node_id(), kNodeB);
  request.set_node("gpu003");
  EXPECT_EQ(fleet.queries().ListRuns(request)->runs_size(), 0);
}

TEST(GetStatusTest, CountsWhatStoreAndLoopsKnow) {
  TestFleet fleet;
  Populate(fleet);
  fleet.AddEpisode("e1", {kNodeA});
  fleet.AddEpisode("e2", {kNodeA}, FindingScope::kNode, Severity::kInfo);
  fleet.view().AddRejected("bad_number", 2);
  fleet.view().AddRejected("malformed", 1);
  fleet.view().AddDuplicates(4);
  fleet.view().SetDetectorLag(5);
  fleet.view().SetConnected(kNodeA, {fleet.clock().Now(), absl::ZeroDuration(), 9});
  const auto status = fleet.queries().GetStatus({});
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->version(), "0.1.0");
  EXPECT_EQ(status->nodes(), 3u);
  EXPECT_EQ(status->connected_agents(), 2u);
  EXPECT_EQ(status->results_stored(), 2u);
  EXPECT_EQ(status->records_rejected(), 3u);
  EXPECT_EQ(status->records_duplicate(), 4u);
  EXPECT_EQ(status->records_lost(), 9u);
  EXPECT_EQ(status->open_findings(), 1u);
  EXPECT_EQ(status->detector_lag_results(), 5u);
  EXPECT_GT(status->store_bytes(), 0u);
  EXPECT_GT(status->resident_bytes(), 0u);
}

// --- Findings and deliveries ---

TEST(FindingsTest, HostnamesStandWhereIdsStood) {
  TestFleet fleet;
  Populate(fleet);
  Episode episode = fleet.AddEpisode("e1", {kNodeA});
  episode.finding.summary = absl::StrCat(kNodeA, " is slow with ", kNodeB, ".");
  episode.finding.evidence = {{"run-1", fleet.clock().Now(), kNodeB, 6e9, 10e9, Metric::kWriteBandwidth}};
  fleet.PutEpisode(episode);
  v1::GetFindingRequest request;
  request.set_finding_id("e1");
  const auto response = fleet.queries().GetFinding(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(response->finding().hostnames(), ElementsAre("gpu001"));
  EXPECT_EQ(response->finding().summary(), "gpu001 is slow with gpu002.");
  episode.finding.summary = absl::StrCat("slow with ", kNodeB);
  fleet.PutEpisode(episode);
  EXPECT_EQ(fleet.queries().GetFinding(request)->finding().summary(), "gpu001: slow with gpu002");
  EXPECT_EQ(response->finding().evidence(0).partner_hostname(), "gpu002");
}

TEST(FindingsTest, FiltersByOpenNodeAndInfo) {
  TestFleet fleet;
  Populate(fleet);
  Episode resolved = fleet.AddEpisode("e1", {kNodeA});
  resolved.resolve_time = fleet.clock().Now();
  fleet.PutEpisode(resolved);
  fleet.AddEpisode("e2", {kNodeB});
  fleet.AddEpisode("e3", {kNodeB}, FindingScope::kNode, Severity::kInfo);
  const auto ids = [&](bool open, const char* node, bool info) {
    v1::ListFindingsRequest request;
    request.set_open_only(open);
    request.set_node(node);
    request.set_include_info(info);
    std::vector<std::string> out;
    const auto response = fleet.queries().ListFindings(request);
    EXPECT_TRUE(response.ok()) << response.status();
    for (const v1::Finding& each : response->findings()) out.push_back(each.finding_id());
    return out;
  };
  EXPECT_THAT(ids(false, "", false), ElementsAre("e2", "e1"));
  EXPECT_THAT(ids(true, "", false), ElementsAre("e2"));
  EXPECT_THAT(ids(false, "gpu001", false), ElementsAre("e1"));
  EXPECT_THAT(ids(false, "gpu002", true), ElementsAre("e3", "e2"));
}

TEST(FindingsTest, UnknownAndBadIdsAreToldApart) {
  TestFleet fleet;
  v1::GetFindingRequest request;
  EXPECT_EQ(fleet.queries().GetFinding(request).status().code(), absl::StatusCode::kInvalidArgument);
  request.set_finding_id("nothing");
  EXPECT_EQ(fleet.queries().GetFinding(request).status().code(), absl::StatusCode::kNotFound);
  request.set_finding_id("a\nb");
  EXPECT_EQ(fleet.queries().GetFinding(request).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(DeliveriesTest, AreListedByFindingAndCountedWhenAccepted) {
  TestFleet fleet;
  Populate(fleet);
  Episode episode = fleet.AddEpisode("e1", {kNodeA});
  episode.notified = true;
  Delivery sent;
  sent.id = "d1";
  sent.receiver = "ops";
  sent.episode_id = "e1";
  sent.sequence = 1;
  sent.create_time = sent.not_before = fleet.clock().Now();
  Delivery waiting = sent;
  waiting.id = "d2";
  waiting.receiver = "other";
  fleet.PutEpisode(episode, {sent, waiting});
  sent.state = DeliveryState::kDelivered;
  sent.deliver_time = fleet.clock().Now();
  ASSERT_EQ(fleet.store().UpdateDelivery(sent), absl::OkStatus());
  v1::GetFindingRequest get;
  get.set_finding_id("e1");
  EXPECT_EQ(fleet.queries().GetFinding(get)->finding().notifications_sent(), 1u);
  v1::ListDeliveriesRequest list;
  list.set_finding_id("e1");
  EXPECT_EQ(fleet.queries().ListDeliveries(list)->deliveries_size(), 2);
  list.set_finding_id("e2");
  EXPECT_EQ(fleet.queries().ListDeliveries(list)->deliveries_size(), 0);
}

// --- Maintenance ---

v1::CreateMaintenanceWindowRequest MuteRack(const TestFleet&, absl::Time start, const char* request_id = "") {
  v1::CreateMaintenanceWindowRequest request;
  v1::MaintenanceWindow& window = *request.mutable_window();
  v1::Matcher& matcher = *window.add_matchers();
  matcher.set_label("rack");
  matcher.set_operator_(v1::MATCH_OPERATOR_IN);
  matcher.add_values("r1");
  window.mutable_one_off()->mutable_start_time()->set_seconds(absl::ToUnixSeconds(start));
  window.mutable_one_off()->mutable_end_time()->set_seconds(absl::ToUnixSeconds(start) + 3600);
  window.set_reason("switch");
  window.set_created_by("ann");
  request.set_request_id(request_id);
  return request;
}

TEST(MaintenanceTest, AnOpenWindowMutesNodesAndFindings) {
  TestFleet fleet;
  Populate(fleet);
  fleet.AddEpisode("e1", {kNodeA});
  const auto created = fleet.queries().CreateMaintenanceWindow(MuteRack(fleet, fleet.clock().Now()));
  ASSERT_TRUE(created.ok()) << created.status();
  const v1::MaintenanceWindow& window = created->window();
  EXPECT_THAT(window.window_id(), MatchesRegex("mw-[0-9a-f]{8}"));
  EXPECT_EQ(window.state(), v1::WINDOW_STATE_ACTIVE);
  EXPECT_THAT(window.matched_hostnames(), ElementsAre("gpu001", "gpu002"));
  EXPECT_EQ(window.occurrence_end_time().seconds(), window.one_off().end_time().seconds());
  EXPECT_EQ(fleet.windows_changed(), 1);
  EXPECT_TRUE(NodeOf(fleet, "gpu001").muted());
  EXPECT_EQ(NodeOf(fleet, "gpu001").state(), v1::NODE_STATE_DEGRADED);
  EXPECT_FALSE(NodeOf(fleet, "gpu003").muted());
  v1::GetFindingRequest get;
  get.set_finding_id("e1");
  EXPECT_THAT(fleet.queries().GetFinding(get)->finding().muted_by(), ElementsAre(window.window_id()));
  fleet.clock().Advance(absl::Hours(1));
  EXPECT_FALSE(NodeOf(fleet, "gpu001").muted());
  EXPECT_EQ(fleet.queries().GetFinding(get)->finding().muted_by_size(), 0);
}

TEST(MaintenanceTest, AResendAnswersTheSameWindowAndOtherContentIsRefused) {
  TestFleet fleet;
  const auto request = MuteRack(fleet, fleet.clock().Now(), "req-1");
  const auto first = fleet.queries().CreateMaintenanceWindow(request);
  ASSERT_TRUE(first.ok()) << first.status();
  fleet.clock().Advance(absl::Hours(2));  // it is over by now; a resend is still answered
  const auto again = fleet.queries().CreateMaintenanceWindow(request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->window().window_id(), first->window().window_id());
  auto other = request;
  other.mutable_window()->set_reason("another");
  EXPECT_EQ(fleet.queries().CreateMaintenanceWindow(other).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST(MaintenanceTest, BadWindowsAreRefusedAndNothingIsStored) {
  TestFleet fleet;
  const absl::Time now = fleet.clock().Now();
  std::vector<v1::CreateMaintenanceWindowRequest> bad(6, MuteRack(fleet, now));
  bad[0].mutable_window()->clear_reason();
  bad[1].mutable_window()->clear_matchers();
  bad[2].mutable_window()->mutable_one_off()->mutable_end_time()->set_seconds(absl::ToUnixSeconds(now));
  bad[3].mutable_window()->mutable_matchers(0)->set_operator_(v1::MATCH_OPERATOR_UNSPECIFIED);
  bad[4].set_request_id(std::string(65, 'x'));
  bad[5].mutable_window()->clear_schedule();
  bad.emplace_back();
  for (const auto& request : bad) {
    EXPECT_EQ(fleet.queries().CreateMaintenanceWindow(request).status().code(),
              absl::StatusCode::kInvalidArgument)
        << request.ShortDebugString();
  }
  EXPECT_EQ(fleet.queries().ListMaintenanceWindows({})->windows_size(), 0);
  EXPECT_EQ(fleet.windows_changed(), 0);
}

TEST(MaintenanceTest, EndingUnmutesAtOnceAndRepeatsHarmlessly) {
  TestFleet fleet;
  Populate(fleet);
  const auto created = fleet.queries().CreateMaintenanceWindow(MuteRack(fleet, fleet.clock().Now()));
  ASSERT_TRUE(created.ok());
  fleet.clock().Advance(absl::Minutes(5));
  v1::EndMaintenanceWindowRequest end;
  end.set_window_id(created->window().window_id());
  end.set_ended_by("bob");
  const auto ended = fleet.queries().EndMaintenanceWindow(end);
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->window().state(), v1::WINDOW_STATE_ENDED);
  EXPECT_EQ(ended->window().ended_by(), "bob");
  EXPECT_EQ(ended->window().revision(), 2u);
  EXPECT_FALSE(NodeOf(fleet, "gpu001").muted());
  end.set_ended_by("eve");
  EXPECT_EQ(fleet.queries().EndMaintenanceWindow(end)->window().ended_by(), "bob");
  EXPECT_EQ(fleet.windows_changed(), 2);
  v1::ListMaintenanceWindowsRequest list;
  EXPECT_EQ(fleet.queries().ListMaintenanceWindows(list)->windows_size(), 0);
  list.set_include_ended(true);
  EXPECT_EQ(fleet.queries().ListMaintenanceWindows(list)->windows_size(), 1);
}

TEST(MaintenanceTest, EndChecksRevisionTimeAndName) {
  TestFleet fleet;
  const absl::Time later = fleet.clock().Now() + absl::Hours(1);
  const auto created = fleet.queries().CreateMaintenanceWindow(MuteRack(fleet, later));
  ASSERT_TRUE(created.ok());
  EXPECT_EQ(created->window().state(), v1::WINDOW_STATE_SCHEDULED);
  v1::EndMaintenanceWindowRequest end;
  end.set_window_id(created->window().window_id());
  EXPECT_EQ(fleet.queries().EndMaintenanceWindow(end).status().code(), absl::StatusCode::kInvalidArgument);
  end.set_ended_by("bob");
  end.set_revision(7);
  EXPECT_EQ(fleet.queries().EndMaintenanceWindow(end).status().code(), absl::StatusCode::kAborted);
  end.set_revision(1);
  const auto cancelled = fleet.queries().EndMaintenanceWindow(end);
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_EQ(cancelled->window().state(), v1::WINDOW_STATE_CANCELLED);
  end.set_window_id("mw-00000000");
  EXPECT_EQ(fleet.queries().EndMaintenanceWindow(end).status().code(), absl::StatusCode::kNotFound);
  const auto short_one = fleet.queries().CreateMaintenanceWindow(MuteRack(fleet, fleet.clock().Now()));
  fleet.clock().Advance(absl::Hours(3));
  end.set_window_id(short_one->window().window_id());
  EXPECT_EQ(fleet.queries().EndMaintenanceWindow(end).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(MaintenanceTest, ListPagesNewestFirst) {
  TestFleet fleet;
  std::vector<std::string> expected;
  for (int i = 0; i < 5; ++i) {
    const auto created = fleet.queries().CreateMaintenanceWindow(MuteRack(fleet, fleet.clock().Now()));
    ASSERT_TRUE(created.ok());
    expected.insert(expected.begin(), created->window().window_id());
    fleet.clock().Advance(absl::Seconds(1));
  }
  v1::ListMaintenanceWindowsRequest request;
  request.set_page_size(2);
  std::vector<std::string> ids;
  do {
    const auto page = fleet.queries().ListMaintenanceWindows(request);
    ASSERT_TRUE(page.ok()) << page.status();
    for (const auto& window : page->windows()) ids.push_back(window.window_id());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(ids, expected);
}

}  // namespace
}  // namespace weft
