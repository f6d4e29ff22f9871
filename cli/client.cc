#include "cli/client.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/tls_files.h"

namespace weft::cli {
namespace {

constexpr int kDefaultPort = 7443;

// An answer holds one page; the server keeps pages well below this.
constexpr int kMaxAnswerBytes = 16 << 20;

absl::Status CheckTls(const ClientOptions& options) {
  const bool any =
      !options.tls_certificate_file.empty() || !options.tls_key_file.empty() || !options.tls_ca_file.empty();
  if (options.insecure && any) {
    return absl::InvalidArgumentError("--insecure and --tls-* exclude each other");
  }
  if (options.tls_certificate_file.empty() == options.tls_key_file.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("--tls-cert and --tls-key belong together");
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials(const ClientOptions& options) {
  if (absl::Status status = CheckTls(options); !status.ok()) return status;
  if (options.insecure) return grpc::InsecureChannelCredentials();
  absl::StatusOr<TlsMaterial> tls =
      ReadTlsFiles(options.tls_certificate_file, options.tls_key_file, options.tls_ca_file);
  // To who typed the command, a file that cannot be used is a mistake in the command.
  if (!tls.ok()) return absl::InvalidArgumentError(tls.status().message());
  return grpc::SslCredentials({tls->ca, tls->private_key, tls->certificate_chain});
}

// As gRPC words it; everything else that is unavailable was said by the server.
bool IsConnectionFailure(absl::string_view said) {
  return absl::StartsWith(said, "failed to connect") || absl::StartsWith(said, "DNS resolution failed") ||
         absl::StartsWith(said, "connections to all backends failing");
}

std::string Unavailable(const grpc::Status& status, const ClientOptions& options) {
  const std::string said = EscapeControl(status.error_message());
  if (!IsConnectionFailure(said)) {
    return absl::StrCat("weft server at ", options.server, " cannot do this now: ", said, ". Try again");
  }
  return absl::StrCat("cannot reach weft server at ", options.server, " (", said, "). Is it running? ",
                      options.insecure ? "Does it want TLS (--tls-ca, --tls-cert, --tls-key)?"
                                       : "Do --tls-ca, --tls-cert and --tls-key fit it?");
}

}  // namespace

absl::Status FromGrpcStatus(const grpc::Status& status, const ClientOptions& options) {
  if (status.ok()) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  if (code == absl::StatusCode::kUnavailable) return absl::Status(code, Unavailable(status, options));
  if (code == absl::StatusCode::kDeadlineExceeded) {
    return absl::Status(code,
                        absl::StrCat("weft server at ", options.server, " did not answer within ",
                                     absl::FormatDuration(options.timeout), ". Try a longer --timeout"));
  }
  if (code == absl::StatusCode::kUnimplemented) {
    return absl::Status(code, absl::StrCat("weft server at ", options.server,
                                           " does not know this call: it is older than this weft"));
  }
  return absl::Status(code, EscapeControl(status.error_message()));
}

Client::Client(ClientOptions options, std::shared_ptr<grpc::Channel> channel)
    : options_(std::move(options)), channel_(std::move(channel)) {}

absl::StatusOr<std::unique_ptr<Client>> Client::Create(ClientOptions options) {
  // Without a port gRPC would take 443. An IPv6 address has brackets where it has a port.
  if (!absl::StrContains(options.server, ':') || absl::EndsWith(options.server, "]"))
    absl::StrAppend(&options.server, ":", kDefaultPort);
  const auto credentials = Credentials(options);
  if (!credentials.ok()) return credentials.status();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kMaxAnswerBytes);
  auto channel = grpc::CreateCustomChannel(options.server, *credentials, arguments);
  return std::unique_ptr<Client>(new Client(std::move(options), std::move(channel)));
}

absl::Time Client::Deadline() const { return Clock::Real().Now() + options_.timeout; }

}  // namespace weft::cli
