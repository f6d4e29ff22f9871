#include "server/ingest/validate.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

v1::Result GoodResult() {
  v1::Result result;
  result.set_run_id("0190-run");
  result.set_node_id("node-1");
  result.set_outcome(v1::OUTCOME_OK);
  v1::Measurement* measurement = result.add_measurements();
  measurement->set_metric(v1::METRIC_WRITE_BANDWIDTH);
  measurement->set_value(25e6);
  measurement->set_device("eth0");
  return result;
}

v1::SpoolRecord Record(const v1::Result& result) {
  v1::SpoolRecord record;
  record.set_sequence(1);
  record.set_result(result.SerializeAsString());
  return record;
}

v1::RejectReason ReasonFor(const v1::SpoolRecord& record) {
  const auto judged = ValidateRecord(record, "node-1");
  const auto* refusal = std::get_if<RecordRefusal>(&judged);
  return refusal == nullptr ? v1::REJECT_REASON_UNSPECIFIED : refusal->reason;
}

TEST(ValidateRecordTest, TakesAGoodRecord) {
  const auto judged = ValidateRecord(Record(GoodResult()), "node-1");
  ASSERT_TRUE(std::holds_alternative<Result>(judged));
  EXPECT_EQ(std::get<Result>(judged).measurements[0].value, 25e6);
}

TEST(ValidateRecordTest, NumbersThatAreNoneAreRefused) {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity(), -1.0}) {
    v1::Result result = GoodResult();
    result.mutable_measurements(0)->set_value(bad);
    EXPECT_EQ(ReasonFor(Record(result)), v1::REJECT_REASON_BAD_NUMBER) << bad;
    result = GoodResult();
    result.mutable_measurements(0)->mutable_distribution()->set_p99(bad);
    EXPECT_EQ(ReasonFor(Record(result)), v1::REJECT_REASON_BAD_NUMBER) << bad;
  }
}

TEST(ValidateRecordTest, BytesThatAreNoResultAreMalformed) {
  v1::SpoolRecord record;
  record.set_result("\xff\xff\xff garbage");
  EXPECT_EQ(ReasonFor(record), v1::REJECT_REASON_MALFORMED);
  // Invalid UTF-8 in a string field: field 5 (detail), two bytes.
  record = Record(GoodResult());
  record.mutable_result()->append("\x2a\x02\xc3\x28");
  EXPECT_EQ(ReasonFor(record), v1::REJECT_REASON_MALFORMED);
}

TEST(ValidateRecordTest, ARecordOfAnotherNodeIsRefused) {
  v1::Result result = GoodResult();
  result.set_node_id("node-2");
  EXPECT_EQ(ReasonFor(Record(result)), v1::REJECT_REASON_WRONG_NODE);
}

TEST(ValidateRecordTest, LimitsHold) {
  v1::Result result = GoodResult();
  result.set_tool_output(std::string(kMaxRecordBytes, 'x'));
  EXPECT_EQ(ReasonFor(Record(result)), v1::REJECT_REASON_TOO_LARGE);
  result = GoodResult();
  for (int i = 0; i < kMaxMeasurements; ++i) result.add_measurements()->set_metric(v1::METRIC_LATENCY);
  EXPECT_EQ(ReasonFor(Record(result)), v1::REJECT_REASON_TOO_LARGE);
}

TEST(ValidateRecordTest, UnknownEnumsAndControlCharactersAreBadFields) {
  v1::Result result = GoodResult();
  result.set_outcome(static_cast<v1::Outcome>(77));
  EXPECT_EQ(ReasonFor(Record(result)), v1::REJECT_REASON_BAD_FIELD);
  result = GoodResult();
  result.set_detail("a\x1b[2J");
  EXPECT_EQ(ReasonFor(Record(result)), v1::REJECT_REASON_BAD_FIELD);
  result = GoodResult();
  result.set_run_id("");
  EXPECT_EQ(ReasonFor(Record(result)), v1::REJECT_REASON_BAD_FIELD);
}

TEST(ValidateRecordTest, TransportProofIsTakenWithinItsBounds) {
  v1::Result result = GoodResult();
  result.mutable_transport()->set_verdict(v1::TRANSPORT_VERDICT_GDR_OFF);
  result.mutable_transport()->add_findings()->set_verdict(v1::TRANSPORT_VERDICT_GDR_OFF);
  result.mutable_transport()->mutable_findings(0)->add_evidence("via NET/IB/0");
  const auto judged = ValidateRecord(Record(result), "node-1");
  ASSERT_TRUE(std::holds_alternative<Result>(judged));
  EXPECT_EQ(std::get<Result>(judged).transport->findings.at(0).evidence.at(0), "via NET/IB/0");
  result.mutable_transport()->mutable_findings(0)->add_evidence("\x1b[31m");
  EXPECT_EQ(ReasonFor(Record(result)), v1::REJECT_REASON_BAD_FIELD);
  result.mutable_transport()->clear_findings();
  result.mutable_transport()->set_verdict(static_cast<v1::TransportVerdict>(77));
  EXPECT_EQ(ReasonFor(Record(result)), v1::REJECT_REASON_BAD_FIELD);
}

v1::Hello GoodHello() {
  v1::Hello hello;
  hello.mutable_node()->set_node_id("0b1f8c1e-aaaa-4bbb-8ccc-123456789abc");
  hello.mutable_node()->set_hostname("gpu017");
  (*hello.mutable_node()->mutable_labels())["rack"] = "r12";
  hello.set_boot_id("boot");
  hello.set_epoch("epoch");
  return hello;
}

TEST(ValidateHelloTest, TakesAGoodHello) { EXPECT_TRUE(ValidateHello(GoodHello()).ok()); }

TEST(ValidateHelloTest, HostnamesThatCouldBeMarkupOrTerminalCodesAreRefused) {
  for (const char* bad : {"", "<img src=x onerror=alert(1)>", "a\x1b[31m", "two\nlines", "with space"}) {
    v1::Hello hello = GoodHello();
    hello.mutable_node()->set_hostname(bad);
    EXPECT_EQ(ValidateHello(hello).code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(ValidateHelloTest, FactsOfGpusAreBounded) {
  v1::Hello hello = GoodHello();
  v1::Gpu* gpu = hello.mutable_node()->add_gpus();
  gpu->mutable_facts()->add_peers()->set_pci_address("0000:19:00.0");
  EXPECT_TRUE(ValidateHello(hello).ok());
  gpu->mutable_facts()->mutable_fabric()->set_cluster_uuid("a\x1b[31m");
  EXPECT_THAT(std::string(ValidateHello(hello).message()), testing::HasSubstr("control characters"));
  gpu->mutable_facts()->mutable_fabric()->clear_cluster_uuid();
  for (int i = 0; i < 5000; ++i) gpu->mutable_facts()->add_peers()->set_pci_address("0000:19:00.0");
  EXPECT_THAT(std::string(ValidateNode(hello.node()).message()), testing::HasSubstr("exceed"));
}

TEST(ValidateHelloTest, NamesEveryProblemAtOnce) {
  v1::Hello hello = GoodHello();
  hello.set_epoch("");
  hello.set_boot_id(std::string(65, 'b'));
  (*hello.mutable_node()->mutable_labels())["log-level"] = "x";
  (*hello.mutable_node()->mutable_labels())["__x"] = std::string(300, 'v');
  const std::string text(ValidateHello(hello).message());
  for (const char* part : {"epoch", "boot_id", "log-level", "__x"})
    EXPECT_THAT(text, testing::HasSubstr(part));
}

}  // namespace
}  // namespace weft
