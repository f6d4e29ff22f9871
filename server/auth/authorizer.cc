#include "server/auth/authorizer.h"

#include <array>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "grpcpp/security/auth_context.h"

namespace weft {
namespace {

// Least role that may call each method. A test walks every method of the contract and fails on one without an
// entry.
struct Rule {
  absl::string_view method;
  Role role;
};
constexpr std::array kRules = {
    Rule{"/weft.v1.AgentService/Connect", Role::kAgent},
    Rule{"/weft.v1.FleetService/ListNodes", Role::kViewer},
    Rule{"/weft.v1.FleetService/GetNode", Role::kViewer},
    Rule{"/weft.v1.FleetService/ListSlowNodes", Role::kViewer},
    Rule{"/weft.v1.FleetService/ListNodeHistory", Role::kViewer},
    Rule{"/weft.v1.FleetService/ListRuns", Role::kViewer},
    Rule{"/weft.v1.FleetService/GetRun", Role::kViewer},
    Rule{"/weft.v1.FleetService/RemoveNode", Role::kOperator},
    Rule{"/weft.v1.ServerService/GetStatus", Role::kViewer},
    Rule{"/weft.v1.FindingService/ListFindings", Role::kViewer},
    Rule{"/weft.v1.FindingService/GetFinding", Role::kViewer},
    Rule{"/weft.v1.AlertService/ListDeliveries", Role::kViewer},
    Rule{"/weft.v1.MaintenanceService/ListMaintenanceWindows", Role::kViewer},
    Rule{"/weft.v1.MaintenanceService/CreateMaintenanceWindow", Role::kOperator},
    Rule{"/weft.v1.MaintenanceService/EndMaintenanceWindow", Role::kOperator},
};

bool Holds(Role has, Role needs) {
  return has == needs || (has == Role::kOperator && needs == Role::kViewer);
}

absl::string_view Name(Role role) {
  switch (role) {
    case Role::kAgent:
      return "agent";
    case Role::kViewer:
      return "viewer";
    case Role::kOperator:
      return "operator";
  }
  return "?";
}

class TableProcessor : public grpc::AuthMetadataProcessor {
 public:
  bool IsBlocking() const override { return false; }  // a table look-up
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context, OutputMetadata*,
                       OutputMetadata*) override {
    const auto path = metadata.find(":path");
    const absl::StatusOr<Identity> identity = PeerIdentity(*context);
    absl::Status status = identity.status();
    if (status.ok()) {
      status = Authorize(*identity, path == metadata.end()
                                        ? absl::string_view()
                                        : absl::string_view(path->second.data(), path->second.size()));
    }
    return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
  }
};

}  // namespace

absl::StatusOr<Identity> ParseSpiffeId(absl::string_view spiffe_id) {
  absl::string_view rest = spiffe_id;
  if (absl::ConsumePrefix(&rest, "spiffe://")) {
    const std::vector<absl::string_view> parts = absl::StrSplit(rest, '/');
    if (parts.size() == 3 && !parts[0].empty() && !parts[2].empty()) {
      for (const Role role : {Role::kAgent, Role::kViewer, Role::kOperator}) {
        if (parts[1] == Name(role)) return Identity{role, std::string(parts[2])};
      }
    }
  }
  return absl::UnauthenticatedError(absl::StrCat(
      "certificate identity \"", spiffe_id, "\" is not spiffe://<domain>/<agent|viewer|operator>/<name>"));
}

absl::Status Authorize(const Identity& identity, absl::string_view method) {
  for (const Rule& rule : kRules) {
    if (rule.method != method) continue;
    if (Holds(identity.role, rule.role)) return absl::OkStatus();
    return absl::PermissionDeniedError(absl::StrCat(method, " needs role ", Name(rule.role), "; ",
                                                    identity.name, " is ", Name(identity.role)));
  }
  return absl::PermissionDeniedError(absl::StrCat(method, " is not open to anyone"));
}

absl::StatusOr<Identity> PeerIdentity(const grpc::AuthContext& context) {
  const std::vector<grpc::string_ref> ids = context.FindPropertyValues("peer_spiffe_id");
  if (ids.size() != 1) {
    return absl::UnauthenticatedError(
        "the client certificate must carry exactly one SPIFFE URI as its identity");
  }
  return ParseSpiffeId(absl::string_view(ids[0].data(), ids[0].size()));
}

std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const TlsMaterial& material) {
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = material.ca;
  options.pem_key_cert_pairs = {{material.private_key, material.certificate_chain}};
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::SslServerCredentials(options);
  credentials->SetAuthMetadataProcessor(std::make_shared<TableProcessor>());
  return credentials;
}

}  // namespace weft
