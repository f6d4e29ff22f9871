// The session against a real gRPC server in this process, with the real runner. A shell script stands for the
// probe: what it answers was encoded here.
#include "agent/session/agent_session.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <atomic>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/framing.h"
#include "convert/convert.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr std::chrono::seconds kPatience(30);

using Stream = grpc::ServerReaderWriter<v1::ConnectResponse, v1::ConnectRequest>;

// Records what agents send and says what it is told to.
class TestServer : public v1::AgentService::Service {
 public:
  // On `port`, or any if 0.
  explicit TestServer(int port = 0) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", port), grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~TestServer() override {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }
  int port() const { return port_; }
  // Answer hellos with this instead of a welcome.
  void Refuse(const grpc::Status& status) {
    std::lock_guard<std::mutex> lock(mutex_);
    refusal_ = status;
  }

  grpc::Status Connect(grpc::ServerContext*, Stream* stream) override {
    v1::ConnectRequest request;
    if (!stream->Read(&request)) return grpc::Status::OK;
    Add(request);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!refusal_.ok()) return refusal_;
      stream_ = stream;
    }
    v1::ConnectResponse welcome;
    ToProto(absl::Milliseconds(200), welcome.mutable_welcome()->mutable_heartbeat_interval());
    ToProto(absl::Milliseconds(100), welcome.mutable_welcome()->mutable_reconnect_spread());
    Send(welcome);
    while (stream->Read(&request)) Add(request);
    std::lock_guard<std::mutex> lock(mutex_);
    if (stream_ == stream) stream_ = nullptr;
    return grpc::Status::OK;
  }

  void Send(const v1::ConnectResponse& message) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stream_ != nullptr) stream_->Write(message);
  }

  // Waits for the first request from `from` on for which `wanted` holds.
  v1::ConnectRequest Await(const std::function<bool(const v1::ConnectRequest&)>& wanted) {
    std::unique_lock<std::mutex> lock(mutex_);
    size_t seen = 0;
    const auto deadline = std::chrono::system_clock::now() + kPatience;
    for (;;) {
      for (; seen < requests_.size(); ++seen)
        if (wanted(requests_[seen])) return requests_[seen];
      if (cv_.wait_until(lock, deadline) == std::cv_status::timeout) break;
    }
    ADD_FAILURE() << "the agent never sent what was waited for";
    return {};
  }
  v1::ConnectRequest AwaitHello() {
    return Await([](const auto& r) { return r.has_hello(); });
  }
  v1::LeaseReply AwaitReply(const std::string& run_id) {
    return Await([&](const auto& r) { return r.lease_reply().run_id() == run_id; }).lease_reply();
  }
  std::vector<v1::ConnectRequest> requests() {
    std::lock_guard<std::mutex> lock(mutex_);
    return requests_;
  }

 private:
  void Add(const v1::ConnectRequest& request) {
    std::lock_guard<std::mutex> lock(mutex_);
    requests_.push_back(request);
    cv_.notify_all();
  }

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;
  std::condition_variable cv_;
  grpc::Status refusal_;
  std::vector<v1::ConnectRequest> requests_;
  Stream* stream_ = nullptr;
};

std::string Octal(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) absl::StrAppendFormat(&out, "\\%03o", static_cast<unsigned char>(c));
  return out;
}

v1::Result ResultOf(const std::string& bytes) {
  v1::Result result;
  EXPECT_TRUE(result.ParseFromString(bytes));
  return result;
}

class AgentSessionTest : public ::testing::Test {
 protected:
  AgentSessionTest() {
    static const absl::Status subreaper = Reaper::BecomeSubreaper();
    EXPECT_TRUE(subreaper.ok());
    std::string pattern = ::testing::TempDir() + "/session_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    spool_ = *Spool::Open({.folder = folder_ + "/spool"});
    runner_ = std::make_unique<ProbeRunner>(ProbeRunner::Options{.probe_dir = folder_}, reaper_);
  }
  ~AgentSessionTest() override {
    session_ = nullptr;
    std::filesystem::remove_all(folder_);
  }

  void StartSession(int port) {
    session_ = std::make_unique<AgentSession>(
        AgentSession::Options{
            .node_id = "node-1", .boot_id = "boot-1", .reconnect = {.spread = absl::Milliseconds(100)}},
        AgentSession::Parts{
            .channel = MakeAgentChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()),
            .spool = spool_.get(),
            .runner = runner_.get(),
            .clock = &Clock::Real(),
            .describe_node =
                [] {
                  v1::Node node;
                  node.set_node_id("node-1");
                  node.set_hostname("host-1");
                  return node;
                },
            .emulated_rate = [this] { return rate_; },
            .describe_change = [this]() -> std::optional<v1::Node> {
              if (!changed_.exchange(false)) return std::nullopt;
              v1::Node node;
              node.set_node_id("node-1");
              node.set_hostname("host-1");
              node.mutable_gpu_source()->set_problem("the driver hangs");
              return node;
            }});
    session_->Start();
  }

  void InstallProbe(const std::string& script) {
    const std::string path = folder_ + "/weft-probe-fabric";
    std::ofstream(path) << "#!/bin/sh\n" << script;
    chmod(path.c_str(), 0700);
  }
  // Offers a rendezvous and then measures.
  void InstallGoodProbe() {
    v1::ProbeReply rendezvous;
    rendezvous.set_rendezvous("address");
    v1::ProbeReply reply;
    reply.mutable_result()->set_outcome(v1::OUTCOME_OK);
    reply.mutable_result()->set_provider("tcp");
    v1::Measurement& measurement = *reply.mutable_result()->add_measurements();
    measurement.set_metric(v1::METRIC_WRITE_BANDWIDTH);
    measurement.set_value(1e9);
    InstallProbe(absl::StrCat("printf '", Octal(EncodeFrame(rendezvous.SerializeAsString())),
                              Octal(EncodeFrame(reply.SerializeAsString())), "' >&3\n"));
  }

  v1::ConnectResponse MakeLease(const std::string& run_id) {
    v1::ConnectResponse message;
    v1::Lease& lease = *message.mutable_lease();
    lease.set_run_id(run_id);
    lease.mutable_spec()->set_name("fabric_write");
    lease.mutable_spec()->mutable_fabric();
    lease.set_world_size(2);
    ToProto(absl::Seconds(30), lease.mutable_start_within());
    ToProto(absl::Seconds(60), lease.mutable_deadline());
    return message;
  }
  void LeaseAndStart(TestServer& server, const std::string& run_id) {
    server.Send(MakeLease(run_id));
    EXPECT_TRUE(server.AwaitReply(run_id).accepted());
    v1::ConnectResponse start;
    start.mutable_start()->set_run_id(run_id);
    server.Send(start);
  }
  static v1::ConnectResponse AckOf(const v1::ResultBatch& batch) {
    v1::ConnectResponse ack;
    ack.mutable_ack()->set_epoch(batch.epoch());
    for (const v1::SpoolRecord& record : batch.records()) ack.mutable_ack()->add_stored(record.sequence());
    return ack;
  }
  static v1::ResultBatch AwaitResults(TestServer& server) {
    return server.Await([](const auto& r) { return r.has_results(); }).results();
  }
  void AwaitSpool(uint64_t records, TestServer& server) {
    server.Await([&](const auto&) { return spool_->stats().records == records; });
  }

  std::string folder_;
  absl::StatusOr<double> rate_ = 0;
  std::atomic<bool> changed_{false};
  Reaper reaper_;
  std::unique_ptr<Spool> spool_;
  std::unique_ptr<ProbeRunner> runner_;
  std::unique_ptr<AgentSession> session_;
};

TEST_F(AgentSessionTest, HelloComesFirstAndHeartbeatsFollow) {
  InstallProbe("exit 0");
  TestServer server;
  StartSession(server.port());
  const v1::Hello hello = server.AwaitHello().hello();
  EXPECT_EQ(hello.node().node_id(), "node-1");
  EXPECT_EQ(hello.boot_id(), "boot-1");
  EXPECT_EQ(hello.epoch(), spool_->epoch());
  EXPECT_THAT(hello.probe_kinds(), ::testing::ElementsAre("fabric")) << "those whose executable is there";
  server.Await([n = 0](const auto& r) mutable { return r.has_heartbeat() && ++n == 3; });
  EXPECT_TRUE(server.requests()[0].has_hello());
}

TEST_F(AgentSessionTest, AChangedNodeTravelsOnceWithAHeartbeat) {
  TestServer server;
  StartSession(server.port());
  EXPECT_FALSE(server.Await([](const auto& r) { return r.has_heartbeat(); }).heartbeat().has_node());
  changed_ = true;
  const v1::Node node =
      server.Await([](const auto& r) { return r.heartbeat().has_node(); }).heartbeat().node();
  EXPECT_EQ(node.gpu_source().problem(), "the driver hangs");
  int with_node = 0, beats = 0;
  server.Await([&](const auto& r) {
    beats += r.has_heartbeat() ? 1 : 0;
    with_node += r.heartbeat().has_node() ? 1 : 0;
    return beats == 6;
  });
  EXPECT_EQ(with_node, 1);
}

TEST_F(AgentSessionTest, ALeasedRunIsRunItsRendezvousForwardedItsResultSentAndForgottenWhenStored) {
  TestServer server;
  InstallGoodProbe();
  StartSession(server.port());
  server.AwaitHello();
  server.Await([](const auto& r) { return r.has_heartbeat(); });
  LeaseAndStart(server, "run-1");
  EXPECT_EQ(server.Await([](const auto& r) { return r.has_rendezvous(); }).rendezvous().rendezvous(),
            "address");
  const v1::ResultBatch batch = AwaitResults(server);
  EXPECT_EQ(batch.epoch(), spool_->epoch());
  ASSERT_THAT(batch.records(), SizeIs(1));
  const v1::Result result = ResultOf(batch.records(0).result());
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.detail();
  EXPECT_EQ(result.run_id(), "run-1");
  EXPECT_EQ(result.node_id(), "node-1");
  EXPECT_EQ(spool_->stats().records, 1u);
  server.Send(AckOf(batch));
  AwaitSpool(0, server);
}

TEST_F(AgentSessionTest, AnUnknownKindIsRefusedAndTheStreamGoesOn) {
  TestServer server;
  StartSession(server.port());
  server.Await([](const auto& r) { return r.has_heartbeat(); });
  v1::ConnectResponse lease = MakeLease("odd");
  lease.mutable_lease()->mutable_spec()->clear_kind();
  server.Send(lease);
  EXPECT_EQ(server.AwaitReply("odd").outcome(), v1::OUTCOME_REFUSED);
  server.Send(MakeLease("good"));
  EXPECT_TRUE(server.AwaitReply("good").accepted());
}

TEST_F(AgentSessionTest, ACancelKillsTheProbe) {
  TestServer server;
  InstallProbe("exec sleep 600\n");
  StartSession(server.port());
  server.Await([](const auto& r) { return r.has_heartbeat(); });
  LeaseAndStart(server, "run-1");
  v1::ConnectResponse cancel;
  cancel.mutable_cancel()->set_run_id("run-1");
  server.Send(cancel);
  const v1::Result result = ResultOf(AwaitResults(server).records(0).result());
  EXPECT_EQ(result.outcome(), v1::OUTCOME_FAILED);
  EXPECT_THAT(result.detail(), HasSubstr("cancelled"));
}

TEST_F(AgentSessionTest, StoppingKillsTheProbeAndSpoolsWhatBecameOfIt) {
  TestServer server;
  InstallProbe("exec sleep 600\n");
  StartSession(server.port());
  server.Await([](const auto& r) { return r.has_heartbeat(); });
  LeaseAndStart(server, "run-1");
  server.Send(MakeLease("run-2"));
  EXPECT_EQ(server.AwaitReply("run-2").outcome(), v1::OUTCOME_SKIPPED_BUSY);
  const absl::Duration before = Clock::Real().Monotonic();
  session_->Stop();
  EXPECT_LT(Clock::Real().Monotonic() - before, absl::Seconds(5));
  const std::vector<SpooledRecord> records = spool_->Offer(10, 1 << 20);
  ASSERT_THAT(records, SizeIs(1));
  const v1::Result result = ResultOf(records[0].payload);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_FAILED);
  EXPECT_EQ(result.detail(), "agent stopped");
}

TEST_F(AgentSessionTest, ReconnectsAfterTheServerRestartsAndDeliversWhatWasSpooledMeanwhileOnce) {
  auto server = std::make_unique<TestServer>();
  const int port = server->port();
  StartSession(port);
  server->Await([](const auto& r) { return r.has_heartbeat(); });
  server = nullptr;
  ASSERT_TRUE(spool_->Append({v1::Result().SerializeAsString(), "second"}).ok());
  server = std::make_unique<TestServer>(port);
  const v1::ResultBatch batch = AwaitResults(*server);
  ASSERT_THAT(batch.records(), SizeIs(2));
  EXPECT_EQ(batch.records(0).sequence(), 2u) << "newest first";
  server->Send(AckOf(batch));
  AwaitSpool(0, *server);
  // Two more heartbeats: time enough for a second delivery to show.
  server->Await([n = 0](const auto& r) mutable { return r.has_heartbeat() && ++n == 3; });
  int batches = 0;
  for (const v1::ConnectRequest& request : server->requests()) batches += request.has_results();
  EXPECT_EQ(batches, 1);
}

TEST_F(AgentSessionTest, ABatchThatWasNotAcknowledgedComesAgainOnTheNextStream) {
  auto server = std::make_unique<TestServer>();
  const int port = server->port();
  ASSERT_TRUE(spool_->AppendOne("record").ok());
  StartSession(port);
  AwaitResults(*server);
  server = nullptr;
  server = std::make_unique<TestServer>(port);
  EXPECT_EQ(AwaitResults(*server).records(0).result(), "record");
}

TEST_F(AgentSessionTest, RejectedRecordsAreSetAsideAndReported) {
  TestServer server;
  ASSERT_TRUE(spool_->AppendOne("poison").ok());
  StartSession(server.port());
  const v1::ResultBatch batch = AwaitResults(server);
  v1::ConnectResponse ack;
  ack.mutable_ack()->set_epoch(batch.epoch());
  v1::Rejection& rejection = *ack.mutable_ack()->add_rejected();
  rejection.set_sequence(1);
  rejection.set_reason(v1::REJECT_REASON_MALFORMED);
  server.Send(ack);
  server.Await([](const auto& r) { return r.heartbeat().spool_rejected_records() == 1; });
  EXPECT_EQ(spool_->stats().records, 0u);
}

TEST_F(AgentSessionTest, ARefusedCloneKeepsTryingAndIsLetInLater) {
  TestServer server;
  server.Refuse(grpc::Status(grpc::StatusCode::ALREADY_EXISTS, "node id is in use"));
  StartSession(server.port());
  server.Await([n = 0](const auto& r) mutable { return r.has_hello() && ++n == 3; });
  server.Refuse(grpc::Status::OK);
  server.Await([](const auto& r) { return r.has_heartbeat(); });
}

TEST_F(AgentSessionTest, AnUnreadableEmulatedRateFailsTheRunAndSaysSo) {
  TestServer server;
  InstallGoodProbe();
  rate_ = absl::InvalidArgumentError("emulated_link_file is odd");
  StartSession(server.port());
  server.Await([](const auto& r) { return r.has_heartbeat(); });
  LeaseAndStart(server, "run-1");
  const v1::Result result = ResultOf(AwaitResults(server).records(0).result());
  EXPECT_EQ(result.outcome(), v1::OUTCOME_FAILED);
  EXPECT_THAT(result.detail(), HasSubstr("odd"));
}

TEST_F(AgentSessionTest, ProxyVariablesOfTheEnvironmentAreIgnored) {
  for (const char* name : {"http_proxy", "https_proxy", "grpc_proxy"}) setenv(name, "http://127.0.0.1:1", 1);
  setenv("no_proxy", "10.0.0.0/8", 1);
  TestServer server;
  StartSession(server.port());
  server.AwaitHello();
  for (const char* name : {"http_proxy", "https_proxy", "grpc_proxy", "no_proxy"}) unsetenv(name);
}

}  // namespace
}  // namespace weft
