// The agents' service over a real gRPC server and a real database.
#include "server/ingest/agent_service.h"

#include <filesystem>

#include "base/id.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "store/sqlite/sqlite_store.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class AgentServiceTest : public testing::Test {
 protected:
  AgentServiceTest() : folder_(testing::TempDir() + "/weft_ingest_" + RandomHex(6)) {
    std::filesystem::create_directories(folder_);
    SqliteStoreOptions options;
    options.path = folder_ + "/weft.db";
    store_ = *OpenSqliteStore(options);
    service_ =
        std::make_unique<AgentService>(AgentServiceOptions{.server_version = "test"}, *store_, Clock::Real(),
                                       streams_, [this](AgentEvent event) { Note(std::move(event)); });
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials());
    PutRun("run-1", {"node-a", "node-b"});
  }
  ~AgentServiceTest() override {
    streams_.Drain();
    server_->Shutdown();
    server_.reset();
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  void PutRun(const std::string& id, std::vector<std::string> participants) {
    weft::Run run;
    run.id = id;
    run.spec = {"wire", FabricProbe{}};
    run.participants = std::move(participants);
    run.plan_time = absl::FromUnixSeconds(1767225600);
    ASSERT_TRUE(store_->PutRuns({run}).ok());
  }
  void Note(AgentEvent event) {
    MutexLock lock(mutex_);
    if (const auto* refused = std::get_if<RecordsRefused>(&event.what)) refused_ += refused->records;
    if (const auto* repeated = std::get_if<RecordsRepeated>(&event.what)) repeated_ += repeated->records;
    if (std::holds_alternative<ResultStored>(event.what)) ++stored_;
  }
  uint64_t Refused() {
    MutexLock lock(mutex_);
    return refused_;
  }

  const std::string folder_;
  std::unique_ptr<Store> store_;
  AgentStreams streams_;
  std::unique_ptr<AgentService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  Mutex mutex_;
  uint64_t refused_ WEFT_GUARDED_BY(mutex_) = 0;
  uint64_t repeated_ WEFT_GUARDED_BY(mutex_) = 0;
  uint64_t stored_ WEFT_GUARDED_BY(mutex_) = 0;
};

// One agent's end of a stream.
class Agent {
 public:
  Agent(const std::shared_ptr<grpc::Channel>& channel, const std::string& node,
        const std::string& boot = "boot-1")
      : stub_(v1::AgentService::NewStub(channel)), node_(node) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    stream_ = stub_->Connect(&context_);
    hello_.mutable_hello()->mutable_node()->set_node_id(node);
    hello_.mutable_hello()->mutable_node()->set_hostname(node + ".example");
    hello_.mutable_hello()->set_boot_id(boot);
    hello_.mutable_hello()->set_epoch("epoch-1");
  }
  v1::ConnectRequest& hello() { return hello_; }
  bool Hello() {
    stream_->Write(hello_);
    v1::ConnectResponse response;
    return stream_->Read(&response) && response.has_welcome();
  }
  void Add(v1::ConnectRequest& request, uint64_t sequence, const std::string& run, uint32_t rank) {
    v1::Result result;
    result.set_run_id(run);
    result.set_node_id(node_);
    result.set_rank(rank);
    result.set_outcome(v1::OUTCOME_OK);
    AddRaw(request, sequence, result.SerializeAsString());
  }
  static void AddRaw(v1::ConnectRequest& request, uint64_t sequence, const std::string& bytes) {
    request.mutable_results()->set_epoch("epoch-1");
    v1::SpoolRecord* record = request.mutable_results()->add_records();
    record->set_sequence(sequence);
    record->set_result(bytes);
  }
  // The ack, or nullopt when the stream ended.
  std::optional<v1::Ack> Push(const v1::ConnectRequest& request) {
    stream_->Write(request);
    v1::ConnectResponse response;
    while (stream_->Read(&response)) {
      if (response.has_ack()) return response.ack();
    }
    return std::nullopt;
  }
  grpc::Status End() {
    v1::ConnectResponse response;
    while (stream_->Read(&response)) {
    }
    return stream_->Finish();
  }
  void Write(const v1::ConnectRequest& request) { stream_->Write(request); }

 private:
  std::unique_ptr<v1::AgentService::Stub> stub_;
  const std::string node_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ConnectRequest, v1::ConnectResponse>> stream_;
  v1::ConnectRequest hello_;
};

TEST_F(AgentServiceTest, AcksWhatIsStoredAndTakesARepeatOnlyOnce) {
  Agent agent(channel_, "node-a");
  ASSERT_TRUE(agent.Hello());
  v1::ConnectRequest batch;
  agent.Add(batch, 1, "run-1", 0);
  for (int i = 0; i < 2; ++i) {
    const auto ack = agent.Push(batch);
    ASSERT_TRUE(ack.has_value());
    EXPECT_THAT(ack->stored(), ElementsAre(1));
  }
  EXPECT_EQ(store_->Stats()->results, 1u);
  EXPECT_EQ(store_->ReadResults(0, 10)->size(), 1u);
}

TEST_F(AgentServiceTest, ABadRecordIsRefusedAloneAndTheRestOfItsBatchIsStored) {
  Agent agent(channel_, "node-a");
  ASSERT_TRUE(agent.Hello());
  v1::ConnectRequest batch;
  Agent::AddRaw(batch, 1, "\xff\xff garbage");
  agent.Add(batch, 2, "run-1", 0);
  agent.Add(batch, 3, "no-such-run", 0);
  agent.Add(batch, 4, "run-1", 1);  // that rank is node-b's
  const auto ack = agent.Push(batch);
  ASSERT_TRUE(ack.has_value());
  EXPECT_THAT(ack->stored(), ElementsAre(2));
  std::map<uint64_t, v1::RejectReason> reasons;
  for (const v1::Rejection& rejection : ack->rejected()) reasons[rejection.sequence()] = rejection.reason();
  EXPECT_EQ(reasons[1], v1::REJECT_REASON_MALFORMED);
  EXPECT_EQ(reasons[3], v1::REJECT_REASON_UNKNOWN_RUN);
  EXPECT_EQ(reasons[4], v1::REJECT_REASON_WRONG_NODE);
  EXPECT_EQ(Refused(), 3u);
}

TEST_F(AgentServiceTest, ANodeThatAHeartbeatDescribesAnewIsStored) {
  Agent agent(channel_, "node-a");
  ASSERT_TRUE(agent.Hello());
  v1::ConnectRequest beat;
  v1::Node& node = *beat.mutable_heartbeat()->mutable_node();
  node = agent.hello().hello().node();
  node.mutable_gpu_source()->set_problem("the driver hangs");
  node.add_gpus()->mutable_facts()->set_pcie_width(8);
  agent.Write(beat);
  // The answer to a batch says that what came before it was handled.
  v1::ConnectRequest batch;
  agent.Add(batch, 1, "run-1", 0);
  ASSERT_TRUE(agent.Push(batch).has_value());
  const Node stored = store_->ListNodes()->at(0).node;
  EXPECT_EQ(stored.gpu_source.problem, "the driver hangs");
  v1::GpuFacts facts;
  ASSERT_TRUE(facts.ParseFromString(stored.gpus.at(0).facts));
  EXPECT_EQ(facts.pcie_width(), 8u);
}

TEST_F(AgentServiceTest, AHeartbeatCannotSpeakForAnotherNode) {
  Agent agent(channel_, "node-a");
  ASSERT_TRUE(agent.Hello());
  v1::ConnectRequest beat;
  *beat.mutable_heartbeat()->mutable_node() = agent.hello().hello().node();
  beat.mutable_heartbeat()->mutable_node()->set_node_id("node-b");
  agent.Write(beat);
  EXPECT_EQ(agent.End().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(store_->ListNodes()->size(), 1u);
}

TEST_F(AgentServiceTest, AStreamThatDoesNotBeginWithHelloIsRefused) {
  Agent agent(channel_, "node-a");
  v1::ConnectRequest batch;
  agent.Add(batch, 1, "run-1", 0);
  agent.Write(batch);
  EXPECT_EQ(agent.End().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(AgentServiceTest, AHostnameThatIsMarkupIsRefusedWithItsReason) {
  Agent agent(channel_, "node-a");
  agent.hello().mutable_hello()->mutable_node()->set_hostname("<img src=x onerror=alert(1)>");
  EXPECT_FALSE(agent.Hello());
  const grpc::Status status = agent.End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("hostname"));
  EXPECT_THAT(*store_->ListNodes(), IsEmpty());
}

TEST_F(AgentServiceTest, AClonedNodeIdIsRefusedAndTheFirstMachineGoesOn) {
  Agent first(channel_, "node-a", "boot-1");
  ASSERT_TRUE(first.Hello());
  Agent clone(channel_, "node-a", "boot-2");
  EXPECT_FALSE(clone.Hello());
  const grpc::Status status = clone.End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_THAT(status.error_message(), HasSubstr("cloned"));
  v1::ConnectRequest batch;
  first.Add(batch, 1, "run-1", 0);
  EXPECT_TRUE(first.Push(batch).has_value());
}

TEST_F(AgentServiceTest, ARestartedAgentTakesItsOwnPlace) {
  Agent before(channel_, "node-a", "boot-1");
  ASSERT_TRUE(before.Hello());
  Agent after(channel_, "node-a", "boot-1");
  ASSERT_TRUE(after.Hello());
  EXPECT_EQ(before.End().error_code(), grpc::StatusCode::ABORTED);
  v1::ConnectRequest batch;
  after.Add(batch, 1, "run-1", 0);
  EXPECT_TRUE(after.Push(batch).has_value());
}

TEST_F(AgentServiceTest, ABatchOverTheMessageLimitEndsOnlyItsOwnStream) {
  Agent big(channel_, "node-a");
  Agent other(channel_, "node-b");
  ASSERT_TRUE(big.Hello());
  ASSERT_TRUE(other.Hello());
  v1::ConnectRequest batch;
  Agent::AddRaw(batch, 1, std::string(5 << 20, 'x'));
  EXPECT_FALSE(big.Push(batch).has_value());
  v1::ConnectRequest good;
  other.Add(good, 1, "run-1", 1);
  EXPECT_TRUE(other.Push(good).has_value());
}

TEST_F(AgentServiceTest, AnAgentWhoseClockIsWrongIsTakenInAndItsOffsetKept) {
  Agent agent(channel_, "node-a");
  const int64_t ahead = absl::ToUnixSeconds(Clock::Real().Now() + absl::Hours(1));
  agent.hello().mutable_hello()->mutable_agent_time()->set_seconds(ahead);
  ASSERT_TRUE(agent.Hello());
  const auto nodes = store_->ListNodes();
  ASSERT_EQ(nodes->size(), 1u);
  EXPECT_NEAR(absl::ToDoubleSeconds(nodes->front().clock_offset), 3600, 5);
}

TEST_F(AgentServiceTest, DrainEndsStreamsAndRefusesNewOnes) {
  Agent agent(channel_, "node-a");
  ASSERT_TRUE(agent.Hello());
  streams_.Drain();
  EXPECT_EQ(agent.End().error_code(), grpc::StatusCode::UNAVAILABLE);
  Agent late(channel_, "node-b");
  EXPECT_FALSE(late.Hello());
}

}  // namespace
}  // namespace weft
