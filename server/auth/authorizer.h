// Who may call what. Identities are SPIFFE-form URI SANs of client certificates:
//   spiffe://<trust domain>/<role>/<name>    role: agent, viewer, operator
// One table, default deny. Without TLS (insecure: true) nobody is asked who they are.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/tls_files.h"
#include "grpcpp/security/auth_metadata_processor.h"
#include "grpcpp/security/server_credentials.h"

namespace weft {

enum class Role { kAgent, kViewer, kOperator };

struct Identity {
  Role role = Role::kViewer;
  std::string name;
};

// kUnauthenticated unless `spiffe_id` has the form above.
absl::StatusOr<Identity> ParseSpiffeId(absl::string_view spiffe_id);

// `method` is the full gRPC path, e.g. "/weft.v1.FleetService/ListNodes". kPermissionDenied with the reason.
absl::Status Authorize(const Identity& identity, absl::string_view method);

// The caller's identity from its certificate; kUnauthenticated if it has none. Never the common name, never
// "the first SAN".
absl::StatusOr<Identity> PeerIdentity(const grpc::AuthContext& context);

// Mutual TLS with the table above checked before each call. Thread-safe.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const TlsMaterial& material);

}  // namespace weft
