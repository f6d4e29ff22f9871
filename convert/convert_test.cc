#include "convert/convert.h"

#include "convert/yaml.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "weft/v1/config.pb.h"

namespace weft {
namespace {

using testing::HasSubstr;

Result ExampleResult() {
  Result result;
  result.run_id = "run";
  result.node_id = "node";
  result.rank = 1;
  result.outcome = Outcome::kYielded;
  result.yield_latency = absl::Milliseconds(310);
  result.transport = TransportProof{
      .verdict = TransportVerdict::kFellBackToTcp,
      .findings = {{TransportVerdict::kFellBackToTcp, "TCP carried it", {"Using network Socket"}}},
      .network = "Socket",
      .nccl_version = "2.28.3+cuda13.0",
      .plugin = "",
      .uses = {{"NET/Socket", "eth0", false, 4}},
      .traffic = {{"eth0", false, 10, 20, true}},
      .nvls = false,
      .unknown_lines = 3};
  result.missing_ranks = {0};
  Measurement measurement;
  measurement.value = 1.5e9;
  measurement.device = "mlx5_0";
  measurement.distribution = {1, 2, 3, 4, 5, 6, 7};
  result.measurements = {measurement};
  result.start_time = absl::FromUnixNanos(1767225600123456789);
  result.elapsed = absl::Nanoseconds(1500000001);
  result.tool_output = "\xff\x00raw";
  return result;
}

TEST(ConvertTest, AResultComesBackAsItWent) {
  v1::Result message;
  ToProto(ExampleResult(), &message);
  const auto back = FromProto(message);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, ExampleResult());
}

TEST(ConvertTest, UnsetEnumsAreRefused) {
  v1::Result message;
  ToProto(ExampleResult(), &message);
  message.set_outcome(v1::OUTCOME_UNSPECIFIED);
  EXPECT_EQ(FromProto(message).status().code(), absl::StatusCode::kInvalidArgument);
  ToProto(ExampleResult(), &message);
  message.mutable_measurements(0)->set_metric(static_cast<v1::Metric>(99));
  EXPECT_EQ(FromProto(message).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ConvertTest, AProbeWithoutKindIsRefused) {
  EXPECT_EQ(FromProto(v1::ProbeSpec()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ConvertTest, TimesBeforeTheEpochAndOutOfRangeStayValid) {
  google::protobuf::Timestamp message;
  ToProto(absl::FromUnixNanos(-1), &message);
  EXPECT_EQ(message.seconds(), -1);
  EXPECT_EQ(message.nanos(), 999999999);
  ToProto(absl::InfiniteFuture(), &message);
  EXPECT_EQ(message.seconds(), 253402300799);
}

TEST(ConvertTest, AWeeklyWindowComesBackAsItWent) {
  MaintenanceWindow window;
  window.id = "mw-1";
  window.matchers = {{"node", MatchOperator::kGlob, {"gpu*"}}};
  window.schedule = Weekly{{absl::Weekday::monday, absl::Weekday::sunday},
                           90,
                           absl::Hours(2),
                           "Europe/Berlin",
                           absl::FromUnixSeconds(1800000000)};
  window.create_time = absl::FromUnixSeconds(1700000000);
  v1::MaintenanceWindow message;
  ToProto(window, &message);
  EXPECT_EQ(message.weekly().weekdays(1), v1::WEEKDAY_SUNDAY);
  const auto back = FromProto(message);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, window);
}

TEST(YamlTest, ReadsEveryKindOfField) {
  v1::ServerConfig config;
  const absl::Status status = ParseYaml(R"(
grpc_address: 0.0.0.0:7443
insecure: true
retention: 30d
heartbeat_interval: 1m30s
probes:
  - spec: {name: wire, fabric: {message_size_bytes: [1048576, 65536], window: 64}}
    period: 15m
detector: {slow_ratio: 0.8}
)",
                                        "server.yaml", &config);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(config.insecure());
  EXPECT_EQ(config.retention().seconds(), 30 * 86400);
  EXPECT_EQ(config.heartbeat_interval().seconds(), 90);
  EXPECT_EQ(config.probes(0).spec().fabric().message_size_bytes_size(), 2);
  EXPECT_DOUBLE_EQ(config.detector().slow_ratio(), 0.8);
  v1::AgentConfig agent;
  ASSERT_TRUE(ParseYaml("labels: {rack: r12, leaf: \"7\"}", "agent.yaml", &agent).ok());
  EXPECT_EQ(agent.labels().at("leaf"), "7");
}

TEST(YamlTest, NamesEveryProblemWithItsLine) {
  v1::ServerConfig config;
  const absl::Status status =
      ParseYaml("grpc_adress: x\ninsecure: maybe\nretention: soon\ninsecure: true\n", "server.yaml", &config);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("server.yaml:1: unknown key \"grpc_adress\""));
  EXPECT_THAT(std::string(status.message()), HasSubstr("server.yaml:2: insecure must be true or false"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("server.yaml:3: retention must be a duration"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("server.yaml:4: key \"insecure\" appears twice"));
}

TEST(YamlTest, ReadsNamesOfEnumerationsAndListsThem) {
  v1::NcclProbe probe;
  ASSERT_TRUE(ParseYaml("collective: all_to_all", "f", &probe).ok());
  EXPECT_EQ(probe.collective(), v1::NCCL_COLLECTIVE_ALL_TO_ALL);
  for (const char* bad : {"ALL_TO_ALL", "unspecified", "gossip", "4", "[all_gather]"}) {
    const absl::Status status = ParseYaml(absl::StrCat("data_type: float32\ncollective: ", bad), "f", &probe);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("f:2: collective must be one of all_gather, all_reduce, reduce_scatter"))
        << bad;
  }
}

TEST(YamlTest, OfSeveralKindsOnlyOneMayBeGiven) {
  v1::ServerConfig config;
  const absl::Status status =
      ParseYaml("probes:\n  - spec: {name: x, nccl: {}}\n  - spec:\n      fabric: {}\n      nccl: {}\n",
                "s.yaml", &config);
  EXPECT_EQ(status.message(), "s.yaml:5: give either \"fabric\" or \"nccl\", not both");
}

TEST(YamlTest, ASecondDocumentIsRefusedWithItsLine) {
  v1::AgentConfig config;
  EXPECT_TRUE(ParseYaml("---\nhostname: a\n", "x.yaml", &config).ok());
  EXPECT_TRUE(ParseYaml("hostname: a\n...\n", "x.yaml", &config).ok());
  EXPECT_THAT(std::string(ParseYaml("hostname: a\n---\nhostname: b\n", "x.yaml", &config).message()),
              HasSubstr("x.yaml:3: a second document"));
}

TEST(YamlTest, BrokenSyntaxIsAnErrorWithItsLine) {
  v1::ServerConfig config;
  EXPECT_THAT(std::string(ParseYaml("a: [1, 2\nb: }", "x.yaml", &config).message()), HasSubstr("x.yaml:"));
  EXPECT_FALSE(ParseYaml("- 1\n- 2\n", "x.yaml", &config).ok());
  EXPECT_TRUE(ParseYaml("", "x.yaml", &config).ok());
}

}  // namespace
}  // namespace weft
