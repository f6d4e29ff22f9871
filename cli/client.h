// The connection to the server: one channel, one deadline per call. Used by one thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"

namespace weft::cli {

struct ClientOptions {
  std::string server = "127.0.0.1:7443";
  std::string tls_certificate_file;  // own chain, PEM; with tls_key_file or not at all
  std::string tls_key_file;
  std::string tls_ca_file;  // authorities that the server must be signed by; empty: the system's
  bool insecure = false;    // plain text
  absl::Duration timeout = absl::Seconds(30);
};

// The server's code; for an unreachable server a message that names it and says what to try.
absl::Status FromGrpcStatus(const grpc::Status& status, const ClientOptions& options);

class Client {
 public:
  // Connects lazily. kInvalidArgument when the options contradict each other, another code when a file cannot
  // be read. HTTP proxies of the environment are ignored.
  static absl::StatusOr<std::unique_ptr<Client>> Create(ClientOptions options);

  // Calls one method of one service with the deadline of the options:
  //   client.Call(&v1::FleetService::Stub::GetNode, request)
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                                const Request& request) {
    Stub stub(channel_);
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(Deadline()));
    Response response;
    const grpc::Status status = (stub.*method)(&context, request, &response);
    if (!status.ok()) return FromGrpcStatus(status, options_);
    return response;
  }

 private:
  Client(ClientOptions options, std::shared_ptr<grpc::Channel> channel);
  absl::Time Deadline() const;

  const ClientOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace weft::cli
