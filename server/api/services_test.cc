// Through a real gRPC server on a free port.
#include "server/api/services.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/api/test_fleet.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

class ServicesTest : public ::testing::Test {
 protected:
  ServicesTest() : services_(fleet_.queries()) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    services_.Register(builder);
    server_ = builder.BuildAndStart();
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    channel_ = grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port_),
                                         grpc::InsecureChannelCredentials(), arguments);
  }
  ~ServicesTest() override { server_->Shutdown(); }

  TestFleet fleet_;
  OperatorServices services_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(ServicesTest, EveryServiceAnswers) {
  fleet_.AddNode("id-1", "gpu001");
  fleet_.AddEpisode("e1", {"id-1"});
  const auto call = [&](auto&& stub, auto method, const auto& request, auto response) {
    grpc::ClientContext context;
    const grpc::Status status = ((*stub).*method)(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  };
  const auto fleet = v1::FleetService::NewStub(channel_);
  using Fleet = v1::FleetService::Stub;
  EXPECT_EQ(call(fleet, &Fleet::ListNodes, v1::ListNodesRequest(), v1::ListNodesResponse()).nodes_size(), 1);
  v1::GetNodeRequest get;
  get.set_node("gpu001");
  EXPECT_EQ(call(fleet, &Fleet::GetNode, get, v1::GetNodeResponse()).node().node().node_id(), "id-1");
  call(fleet, &Fleet::ListSlowNodes, v1::ListSlowNodesRequest(), v1::ListSlowNodesResponse());
  call(fleet, &Fleet::ListRuns, v1::ListRunsRequest(), v1::ListRunsResponse());
  EXPECT_EQ(call(v1::ServerService::NewStub(channel_), &v1::ServerService::Stub::GetStatus,
                 v1::GetStatusRequest(), v1::GetStatusResponse())
                .nodes(),
            1u);
  EXPECT_EQ(call(v1::FindingService::NewStub(channel_), &v1::FindingService::Stub::ListFindings,
                 v1::ListFindingsRequest(), v1::ListFindingsResponse())
                .findings(0)
                .hostnames(0),
            "gpu001");
  call(v1::AlertService::NewStub(channel_), &v1::AlertService::Stub::ListDeliveries,
       v1::ListDeliveriesRequest(), v1::ListDeliveriesResponse());
  call(v1::MaintenanceService::NewStub(channel_), &v1::MaintenanceService::Stub::ListMaintenanceWindows,
       v1::ListMaintenanceWindowsRequest(), v1::ListMaintenanceWindowsResponse());
}

TEST_F(ServicesTest, ErrorsKeepCodeAndMessage) {
  v1::GetNodeRequest request;
  request.set_node("nobody\x1b");
  v1::GetNodeResponse response;
  grpc::ClientContext context;
  const grpc::Status status = v1::FleetService::NewStub(channel_)->GetNode(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("no node \"nobody\\x1b\""));
}

TEST(ToGrpcStatusTest, MessagesBecomeValidAndShort) {
  const grpc::Status status =
      ToGrpcStatus(absl::UnavailableError(absl::StrCat("\xff", std::string(10000, 'x'))));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_LE(status.error_message().size(), 4096u);
  EXPECT_THAT(status.error_message(), HasSubstr("\xef\xbf\xbdx"));
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
}

}  // namespace
}  // namespace weft
