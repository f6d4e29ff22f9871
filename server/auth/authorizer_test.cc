#include "server/auth/authorizer.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "weft/v1/agent.pb.h"
#include "weft/v1/finding.pb.h"
#include "weft/v1/fleet.pb.h"
#include "weft/v1/maintenance.pb.h"

namespace weft {
namespace {

std::vector<std::string> AllMethods() {
  std::vector<std::string> methods;
  for (const google::protobuf::FileDescriptor* file :
       {v1::Hello::descriptor()->file(), v1::Node::descriptor()->file(), v1::Finding::descriptor()->file(),
        v1::MaintenanceWindow::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      const google::protobuf::ServiceDescriptor* service = file->service(i);
      for (int j = 0; j < service->method_count(); ++j) {
        methods.push_back(absl::StrCat("/", service->full_name(), "/", service->method(j)->name()));
      }
    }
  }
  return methods;
}

TEST(AuthorizerTest, EveryMethodOfTheContractHasARule) {
  const std::vector<std::string> methods = AllMethods();
  ASSERT_GE(methods.size(), 13u);
  for (const std::string& method : methods) {
    const bool agent = Authorize({Role::kAgent, "a"}, method).ok();
    const bool person = Authorize({Role::kOperator, "o"}, method).ok();
    EXPECT_TRUE(agent || person) << method;
    EXPECT_FALSE(agent && person) << method << ": agents and people share no method";
  }
}

TEST(AuthorizerTest, ViewersReadAndDoNotWrite) {
  EXPECT_TRUE(Authorize({Role::kViewer, "v"}, "/weft.v1.FleetService/ListNodes").ok());
  EXPECT_EQ(Authorize({Role::kViewer, "v"}, "/weft.v1.MaintenanceService/CreateMaintenanceWindow").code(),
            absl::StatusCode::kPermissionDenied);
}

TEST(AuthorizerTest, UnknownMethodsAreDeniedToAll) {
  for (const Role role : {Role::kAgent, Role::kViewer, Role::kOperator}) {
    EXPECT_FALSE(Authorize({role, "x"}, "/weft.v1.FleetService/DropEverything").ok());
    EXPECT_FALSE(Authorize({role, "x"}, "").ok());
  }
}

TEST(AuthorizerTest, OnlyTheExactFormOfAnIdentityCounts) {
  const auto identity = ParseSpiffeId("spiffe://weft.example/agent/gpu017");
  ASSERT_TRUE(identity.ok());
  EXPECT_EQ(identity->role, Role::kAgent);
  EXPECT_EQ(identity->name, "gpu017");
  for (const char* bad : {"", "spiffe://weft.example/agent/", "spiffe:///agent/x", "spiffe://d/root/x",
                          "spiffe://d/agent/x/y", "https://d/agent/x", "spiffe://d/agent"}) {
    EXPECT_EQ(ParseSpiffeId(bad).status().code(), absl::StatusCode::kUnauthenticated) << bad;
  }
}

}  // namespace
}  // namespace weft
