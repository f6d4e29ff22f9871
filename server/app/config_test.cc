#include "server/app/config.h"

#include <fstream>

#include "absl/strings/str_cat.h"
#include "convert/yaml.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using testing::HasSubstr;

constexpr char kGood[] = R"(
data_dir: data
insecure: true
probes:
  - spec: {name: wire, fabric: {}}
)";

absl::Status Complete(const std::string& yaml, v1::ServerConfig& config) {
  config.Clear();
  if (absl::Status status = ParseYaml(yaml, "server.yaml", &config); !status.ok()) return status;
  return CompleteServerConfig(config);
}

TEST(ServerConfigTest, FillsInTheDefaults) {
  v1::ServerConfig config;
  ASSERT_TRUE(Complete(kGood, config).ok());
  EXPECT_EQ(config.grpc_address(), "127.0.0.1:7443");
  EXPECT_EQ(config.external_url(), "http://127.0.0.1:7480");
  EXPECT_EQ(config.probes(0).period().seconds(), 900);
  EXPECT_EQ(config.detector().slow_runs(), 3u);
}

TEST(ServerConfigTest, LinksOfAnAddressThatSaysAnyNameThisMachine) {
  v1::ServerConfig config;
  ASSERT_TRUE(Complete(std::string(kGood) + "http_address: 0.0.0.0:80\n", config).ok());
  EXPECT_THAT(config.external_url(), ::testing::MatchesRegex("http://.+:80"));
  EXPECT_THAT(config.external_url(), ::testing::Not(HasSubstr("0.0.0.0")));
}

TEST(ServerConfigTest, AProbeNeedsAKindAndACollectiveAPartner) {
  v1::ServerConfig config;
  const std::string text(Complete("insecure: true\ndata_dir: d\nprobes: [{spec: {name: x}}, {spec: {name: y, "
                                  "nccl: {}}, group_size: 1}]",
                                  config)
                             .message());
  EXPECT_THAT(text, HasSubstr("probe \"x\": spec needs one of fabric, nccl, gpu_copy"));
  EXPECT_THAT(text, HasSubstr("group_size of an NCCL probe must be 2 to 1024"));
}

TEST(ServerConfigTest, InsecureIsForLoopbackOnly) {
  v1::ServerConfig config;
  EXPECT_THAT(std::string(Complete(std::string(kGood) + "grpc_address: 0.0.0.0:7443\n", config).message()),
              HasSubstr("only for loopback"));
}

TEST(ServerConfigTest, WithoutTlsThereIsNoServer) {
  v1::ServerConfig config;
  EXPECT_THAT(
      std::string(Complete("data_dir: d\nprobes: [{spec: {name: wire, fabric: {}}}]", config).message()),
      HasSubstr("tls needs certificate_file"));
}

TEST(ServerConfigTest, NamesAllProblemsAtOnce) {
  v1::ServerConfig config;
  const std::string text(Complete(R"(
insecure: true
retention: 1m
probes:
  - spec: {name: wire, fabric: {window: 100000}}
    period: 10ms
  - spec: {name: wire, fabric: {}}
    group_size: 3
receivers: [{name: Bad Name, url: "ftp://x"}]
detector: {slow_ratio: 0.9, recovered_ratio: 0.5}
)",
                                  config)
                             .message());
  for (const char* part : {"data_dir is missing", "retention is 1m, must be",
                           "probe \"wire\": probe field fabric.window must be 1 to 1024",
                           "probe \"wire\": period is 10ms, must be from 1s to 168h",
                           "\"wire\" appears twice", "group_size of the fabric probe must be 2", "[a-z0-9_-]",
                           "https://", "secret_file is missing", "recovered_ratio must be above"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(ServerConfigTest, AZeroThatWouldMeanTheDefaultIsRefused) {
  const std::string path = ::testing::TempDir() + "/zeros.yaml";
  std::ofstream(path) << "insecure: true\ndata_dir: d\nreconnect_spread: 0s\nprobes:\n"
                         "  - spec: {name: x, fabric: {window: 0, bytes_per_size: 0}}\n"
                         "    group_size: 0\n"
                         "  - spec: {name: y, nccl: {warm_up_iterations: 0}}\n"
                         "detector: {slow_ratio: 0, slow_runs: 0}\n";
  const std::string text(LoadServerConfig(path).status().message());
  for (const char* key : {":5: window", ":5: bytes_per_size", ":6: group_size", ":7: warm_up_iterations",
                          ":8: slow_ratio", ":8: slow_runs"}) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat(path, key, " is 0, which would give its default"))) << key;
  }
  EXPECT_THAT(text, ::testing::Not(HasSubstr("reconnect_spread")));
  std::ofstream(path)
      << "insecure: true\ndata_dir: d\nprobes: [{spec: {name: y, nccl: {init_deadline: 0s}}}]\n";
  EXPECT_THAT(std::string(LoadServerConfig(path).status().message()),
              HasSubstr("probe \"y\": nccl.init_deadline must be above 0"));
}

}  // namespace
}  // namespace weft
