// An agent that misbehaves in one chosen way, over plain gRPC, and prints what the server answers:
// "rejected SEQUENCE REASON" for each refused record, "stored SEQUENCE", and last "status CODE MESSAGE".
//   weft-e2e-bad-agent SERVER CASE [RUN_ID]
#include <grpcpp/grpcpp.h>

#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <string>

#include "weft/v1/agent.grpc.pb.h"

namespace v1 = weft::v1;

namespace {

using Stream = grpc::ClientReaderWriter<v1::ConnectRequest, v1::ConnectResponse>;

constexpr char kNodeId[] = "bad-agent";

v1::ConnectRequest GoodHello(int64_t clock_offset_seconds = 0) {
  v1::ConnectRequest request;
  v1::Hello& hello = *request.mutable_hello();
  hello.mutable_node()->set_node_id(kNodeId);
  hello.mutable_node()->set_hostname(kNodeId);
  hello.set_boot_id("boot");
  hello.set_epoch("epoch");
  hello.mutable_agent_time()->set_seconds(time(nullptr) + clock_offset_seconds);
  return request;
}

v1::Result SomeResult(const std::string& run_id) {
  v1::Result result;
  result.set_run_id(run_id);
  result.set_node_id(kNodeId);
  result.set_outcome(v1::OUTCOME_OK);
  v1::Measurement& measurement = *result.add_measurements();
  measurement.set_metric(v1::METRIC_WRITE_BANDWIDTH);
  measurement.set_value(1e6);
  measurement.set_message_size_bytes(1 << 20);
  return result;
}

void Add(v1::ResultBatch* batch, const std::string& payload) {
  v1::SpoolRecord& record = *batch->add_records();
  record.set_sequence(static_cast<uint64_t>(batch->records_size()));
  record.set_result(payload);
}

std::string Changed(const std::string& run_id, const std::function<void(v1::Result&)>& change) {
  v1::Result result = SomeResult(run_id);
  change(result);
  return result.SerializeAsString();
}

// Sequences 1 to 9: one record of each way to be wrong.
v1::ConnectRequest WrongRecords(const std::string& run_id) {
  v1::ConnectRequest request;
  v1::ResultBatch* batch = request.mutable_results();
  batch->set_epoch("epoch");
  Add(batch, "\xff\xff\xff garbage");
  Add(batch, Changed(run_id, [](v1::Result& r) { r.set_detail("\xc3\x28"); }));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Add(batch, Changed(run_id, [nan](v1::Result& r) { r.mutable_measurements(0)->set_value(nan); }));
  Add(batch, Changed(run_id, [](v1::Result& r) { r.mutable_measurements(0)->set_value(-1); }));
  Add(batch, SomeResult("no-such-run").SerializeAsString());
  Add(batch, SomeResult(run_id).SerializeAsString());
  Add(batch, Changed(run_id, [](v1::Result& r) { r.set_node_id("someone-else"); }));
  Add(batch, std::string(300 << 10, 'x'));
  Add(batch, Changed(run_id, [](v1::Result& r) { r.set_outcome(v1::OUTCOME_UNSPECIFIED); }));
  return request;
}

void Print(const v1::ConnectResponse& response) {
  for (const uint64_t sequence : response.ack().stored()) std::cout << "stored " << sequence << std::endl;
  for (const v1::Rejection& rejection : response.ack().rejected()) {
    std::cout << "rejected " << rejection.sequence() << " " << v1::RejectReason_Name(rejection.reason())
              << std::endl;
  }
  if (response.has_lease()) std::cout << "lease " << response.lease().run_id() << std::endl;
}

// Reads until `enough` says so or the stream ends.
void ReadUntil(Stream& stream, const std::function<bool(const v1::ConnectResponse&)>& enough) {
  v1::ConnectResponse response;
  while (stream.Read(&response)) {
    Print(response);
    if (enough(response)) return;
  }
}

bool Never(const v1::ConnectResponse&) { return false; }

// --- The ways to misbehave ---

void Records(Stream& stream, const std::string& run_id) {
  stream.Write(GoodHello());
  stream.Write(WrongRecords(run_id));
  ReadUntil(stream, [](const v1::ConnectResponse& r) { return r.has_ack(); });
  stream.WritesDone();
}

void OversizeBatch(Stream& stream, const std::string&) {
  stream.Write(GoodHello());
  v1::ConnectRequest request;
  for (int i = 0; i < 40; ++i) Add(request.mutable_results(), std::string(200 << 10, 'x'));
  request.mutable_results()->set_epoch("epoch");
  stream.Write(request);
  ReadUntil(stream, Never);
}

void NoHello(Stream& stream, const std::string&) {
  v1::ConnectRequest request;
  request.mutable_heartbeat();
  stream.Write(request);
  ReadUntil(stream, Never);
}

void BadHostname(Stream& stream, const std::string&) {
  v1::ConnectRequest request = GoodHello();
  request.mutable_hello()->mutable_node()->set_hostname("gpu\x1b[2J\nnode");
  stream.Write(request);
  ReadUntil(stream, Never);
}

void InvalidUtf8Hello(Stream& stream, const std::string&) {
  v1::ConnectRequest request = GoodHello();
  request.mutable_hello()->mutable_node()->set_hostname("gpu\xc3\x28");
  stream.Write(request);
  ReadUntil(stream, Never);
}

void SendHeartbeat(Stream& stream, int64_t clock_offset_seconds) {
  v1::ConnectRequest beat;
  beat.mutable_heartbeat()->mutable_agent_time()->set_seconds(time(nullptr) + clock_offset_seconds);
  stream.Write(beat);
}

// An hour fast, and knows only a kind of probe that the server does not; stays until killed.
void SkewedClock(Stream& stream, const std::string&) {
  v1::ConnectRequest hello = GoodHello(3600);
  hello.mutable_hello()->add_probe_kinds("quantum");
  stream.Write(hello);
  ReadUntil(stream, [&stream](const v1::ConnectResponse&) {
    SendHeartbeat(stream, 3600);
    return false;
  });
}

const std::map<std::string, void (*)(Stream&, const std::string&)> kCases = {
    {"records", Records},          {"oversize-batch", OversizeBatch},        {"no-hello", NoHello},
    {"bad-hostname", BadHostname}, {"invalid-utf8-hello", InvalidUtf8Hello}, {"skewed-clock", SkewedClock},
};

}  // namespace

int main(int argc, char** argv) {
  const auto chosen = argc >= 3 ? kCases.find(argv[2]) : kCases.end();
  if (chosen == kCases.end()) {
    std::cerr << "usage: weft-e2e-bad-agent SERVER CASE [RUN_ID]\n";
    return 2;
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxSendMessageSize(-1);
  const auto channel = grpc::CreateCustomChannel(argv[1], grpc::InsecureChannelCredentials(), arguments);
  const auto stub = v1::AgentService::NewStub(channel);
  grpc::ClientContext context;
  const auto stream = stub->Connect(&context);
  chosen->second(*stream, argc > 3 ? argv[3] : "no-run");
  const grpc::Status status = stream->Finish();
  std::cout << "status " << status.error_code() << " " << status.error_message() << std::endl;
  return 0;
}
