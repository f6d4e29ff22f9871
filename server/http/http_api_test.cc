// The whole HTTP side over real sockets, on a real store.
#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <string>

#include "server/http/testing.h"
#include "weft/v1/finding.pb.h"
#include "weft/v1/fleet.pb.h"
#include "weft/v1/maintenance.pb.h"

namespace weft {
namespace {

using testing::ClientResponse;
using testing::Fetch;
using ::testing::HasSubstr;
using testing::kMarkupHostname;
using testing::ServedFleet;

class HttpApiTest : public ::testing::Test {
 protected:
  // Fails unless the answer is 200 and JSON of exactly that message.
  template <typename Message>
  Message Read(const std::string& target) {
    const ClientResponse response = Fetch(fleet_.port(), target);
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(response.headers.at("content-type"), "application/json");
    Message message;
    const auto parsed = google::protobuf::util::JsonStringToMessage(response.body, &message);
    EXPECT_TRUE(parsed.ok()) << parsed.ToString() << "\n" << response.body;
    return message;
  }

  void ExpectError(const std::string& target, long status, int code, const std::string& words) {
    const ClientResponse response = Fetch(fleet_.port(), target);
    EXPECT_EQ(response.status, status) << target << response.body;
    google::protobuf::Struct error;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(response.body, &error).ok()) << response.body;
    EXPECT_EQ(error.fields().at("code").number_value(), code) << target;
    EXPECT_THAT(error.fields().at("message").string_value(), HasSubstr(words)) << target;
    EXPECT_TRUE(error.fields().at("details").has_list_value());
  }

  ServedFleet fleet_;
};

TEST_F(HttpApiTest, NodesComeWithTheirLevels) {
  const auto nodes = Read<v1::ListNodesResponse>("/api/v1/nodes");
  ASSERT_EQ(nodes.nodes_size(), 3);
  EXPECT_EQ(nodes.nodes(0).node().hostname(), kMarkupHostname);
  EXPECT_EQ(nodes.nodes(2).node().hostname(), "gpu-b");
  EXPECT_DOUBLE_EQ(nodes.nodes(2).bandwidth_ratio(), 0.5);
  EXPECT_EQ(nodes.nodes(2).state(), v1::NODE_STATE_DEGRADED);
  EXPECT_EQ(nodes.nodes(1).state(), v1::NODE_STATE_OK);
}

TEST_F(HttpApiTest, FieldsWithoutAValueAreThere) {
  const std::string body = Fetch(fleet_.port(), "/api/v1/nodes/gpu-a").body;
  EXPECT_THAT(body, HasSubstr("\"muted\":false"));
  EXPECT_THAT(body, HasSubstr("\"findingIds\":[]"));
}

TEST_F(HttpApiTest, PagesFollowEachOtherByToken) {
  const auto first = Read<v1::ListNodesResponse>("/api/v1/nodes?page_size=2");
  ASSERT_EQ(first.nodes_size(), 2);
  ASSERT_FALSE(first.next_page_token().empty());
  const auto second =
      Read<v1::ListNodesResponse>("/api/v1/nodes?page_size=2&page_token=" + first.next_page_token());
  ASSERT_EQ(second.nodes_size(), 1);
  EXPECT_EQ(second.nodes(0).node().hostname(), "gpu-b");
}

TEST_F(HttpApiTest, OneNodeIsFoundByHostnameAndById) {
  EXPECT_EQ(Read<v1::GetNodeResponse>("/api/v1/nodes/gpu-b").node().node().node_id(), "id-b");
  EXPECT_EQ(Read<v1::GetNodeResponse>("/api/v1/nodes/id-b").node().node().hostname(), "gpu-b");
  EXPECT_EQ(
      Read<v1::GetNodeResponse>("/api/v1/nodes/%3Cimg%20src=x%20onerror=alert(1)%3E").node().node().node_id(),
      "id-c");
}

TEST_F(HttpApiTest, SlowNodesAreThoseBelowTheShare) {
  EXPECT_EQ(Read<v1::ListSlowNodesResponse>("/api/v1/nodes:slow").nodes_size(), 1);
  EXPECT_EQ(Read<v1::ListSlowNodesResponse>("/api/v1/nodes:slow?below=0.4").nodes_size(), 0);
}

TEST_F(HttpApiTest, HistoryIsOfTheNodeAndSinceTheTime) {
  const auto all = Read<v1::ListNodeHistoryResponse>("/api/v1/nodes/gpu-b/history");
  ASSERT_EQ(all.points_size(), 1);
  EXPECT_EQ(all.points(0).peer_hostname(), "gpu-a");
  EXPECT_DOUBLE_EQ(all.points(0).measurements(0).value(), 50e6);
  EXPECT_EQ(Read<v1::ListNodeHistoryResponse>("/api/v1/nodes/gpu-b/history?since=2999-01-01T00:00:00Z")
                .points_size(),
            0);
}

TEST_F(HttpApiTest, RunsFindingsDeliveriesWindowsAndStatusAreAnswered) {
  EXPECT_EQ(Read<v1::ListRunsResponse>("/api/v1/runs?node=gpu-a").runs_size(), 1);
  const auto findings = Read<v1::ListFindingsResponse>("/api/v1/findings?open=true");
  ASSERT_EQ(findings.findings_size(), 1);
  EXPECT_EQ(findings.findings(0).hostnames(0), "gpu-b");
  EXPECT_EQ(Read<v1::GetFindingResponse>("/api/v1/findings/episode-1").finding().ratio(), 0.5);
  EXPECT_EQ(Read<v1::ListDeliveriesResponse>("/api/v1/deliveries").deliveries_size(), 0);
  EXPECT_EQ(Read<v1::ListMaintenanceWindowsResponse>("/api/v1/maintenanceWindows").windows_size(), 0);
  EXPECT_EQ(Read<v1::GetStatusResponse>("/api/v1/status").nodes(), 3u);
}

TEST_F(HttpApiTest, ErrorsAreStatusesInJson) {
  ExpectError("/api/v1/nodes/gpu-x", 404, 5, "gpu-x");
  ExpectError("/api/v1/findings/none", 404, 5, "none");
  ExpectError("/api/v1/nodes?page_size=-1", 400, 3, "page_size");
  ExpectError("/api/v1/nodes?page_size=x", 400, 3, "page_size=x");
  ExpectError("/api/v1/nodes?page_token=garbage", 400, 3, "page_token");
  ExpectError("/api/v1/nodes?pagesize=1", 400, 3, "pagesize");
  ExpectError("/api/v1/nodes/gpu-b/history?since=yesterday", 400, 3, "since=yesterday");
  ExpectError("/api/v1/nothing", 404, 5, "Nothing");
}

TEST_F(HttpApiTest, HealthAndReadinessAreToldApart) {
  EXPECT_EQ(Fetch(fleet_.port(), "/readyz").status, 200);
  fleet_.SetReady(false);
  EXPECT_EQ(Fetch(fleet_.port(), "/healthz").status, 200);
  const ClientResponse ready = Fetch(fleet_.port(), "/readyz");
  EXPECT_EQ(ready.status, 503);
  EXPECT_THAT(ready.body, HasSubstr("no store"));
}

TEST_F(HttpApiTest, MetricsAreTextAndCompressedWhenAsked) {
  const ClientResponse plain = Fetch(fleet_.port(), "/metrics");
  EXPECT_EQ(plain.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_THAT(plain.body,
              HasSubstr("weft_probe_bandwidth_ratio{node=\"gpu-b\",probe=\"fabric_write\"} 0.5\n"));
  EXPECT_THAT(plain.body, HasSubstr("weft_agents_connected 3\n"));
  EXPECT_THAT(plain.body,
              HasSubstr("weft_regressions_active{scope=\"node\",severity=\"warning\",muted=\"false\"} 1\n"));
  EXPECT_THAT(plain.body, HasSubstr("weft_metrics_source_up{source=\"store\"} 1\n"));
  const ClientResponse compressed = Fetch(fleet_.port(), "/metrics", {"Accept-Encoding: gzip"});
  EXPECT_EQ(compressed.headers.at("content-encoding"), "gzip");
  EXPECT_LT(compressed.body.size(), plain.body.size() / 3);
}

TEST_F(HttpApiTest, PromtoolAcceptsTheServedMetrics) {
  if (!testing::IsInstalled("promtool")) GTEST_SKIP() << "promtool is not installed";
  std::string output;
  const std::string command = "curl -sf --noproxy '*' http://127.0.0.1:" + std::to_string(fleet_.port()) +
                              "/metrics | promtool check metrics";
  EXPECT_EQ(testing::RunProgram({"bash", "-c", "set -o pipefail; " + command}, &output), 0) << output;
  EXPECT_EQ(output, "");
}

TEST_F(HttpApiTest, DiscoveryNamesTheAddressThatTheClientUsed) {
  const ClientResponse response = Fetch(fleet_.port(), "/sd/prometheus");
  EXPECT_EQ(response.headers.at("content-type"), "application/json");
  EXPECT_THAT(response.body, HasSubstr("\"127.0.0.1:" + std::to_string(fleet_.port()) + "\""));
}

TEST_F(HttpApiTest, ThePageIsServedAndNotSentAgainWhileItIsTheSame) {
  for (const char* path :
       {"/", "/findings/episode-1", "/assets/weft.js", "/assets/weft.css", "/assets/weft.svg"}) {
    const ClientResponse first = Fetch(fleet_.port(), path);
    ASSERT_EQ(first.status, 200) << path;
    EXPECT_FALSE(first.body.empty());
    EXPECT_EQ(first.headers.at("cache-control"), "no-cache");
    const ClientResponse again = Fetch(fleet_.port(), path, {"If-None-Match: " + first.headers.at("etag")});
    EXPECT_EQ(again.status, 304) << path;
    EXPECT_EQ(again.body, "");
    EXPECT_EQ(Fetch(fleet_.port(), path, {"If-None-Match: \"other\""}).status, 200);
  }
}

TEST_F(HttpApiTest, NoFileOutsideThePageIsReachable) {
  for (const char* path : {"/assets/../../etc/passwd", "/assets/..%2f..%2fetc%2fpasswd", "/assets/",
                           "/index.html", "//etc/passwd", "/assets/weft.js/"}) {
    const long status = Fetch(fleet_.port(), path).status;
    EXPECT_TRUE(status == 404 || status == 400) << path << " " << status;
  }
}

TEST_F(HttpApiTest, MarkupInANameIsEscapedInJson) {
  const std::string body = Fetch(fleet_.port(), "/api/v1/nodes").body;
  EXPECT_EQ(body.find("<img"), std::string::npos);
  EXPECT_THAT(body, HasSubstr("\\u003cimg"));
}

}  // namespace
}  // namespace weft
