#include "server/http/http_server.h"

#include <pthread.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/http/host_port.h"
#include "server/http/http_session.h"
#include "spdlog/spdlog.h"

namespace weft {
namespace {

namespace asio = boost::asio;
using boost::asio::ip::tcp;

// Connections beyond the limit that may be told so at once; the rest are closed without a word.
constexpr size_t kRefusalsAtOnce = 64;
// Out of descriptors: accepting again at once would spin.
constexpr auto kAcceptRetry = std::chrono::milliseconds(100);

absl::Status CannotListen(const std::string& address, const std::string& why) {
  return absl::UnavailableError(absl::StrCat("cannot listen for HTTP on ", address, ": ", why,
                                             ". Free the address or change http_address."));
}

absl::StatusOr<tcp::endpoint> Resolve(asio::io_context& context, const std::string& address) {
  const auto parsed = ParseHostPort(address);
  if (!parsed) {
    return absl::InvalidArgumentError(
        absl::StrCat("http_address \"", address, "\" is not HOST:PORT, e.g. 127.0.0.1:7480 or [::]:7480"));
  }
  boost::system::error_code error;
  auto found =
      tcp::resolver(context).resolve(parsed->host, absl::StrCat(parsed->port), tcp::resolver::passive, error);
  if (error || found.empty()) return CannotListen(address, error.message());
  return found.begin()->endpoint();
}

}  // namespace

// Close ends the acceptor, then the io_context and with it every session; sessions use the members before it.
class HttpServer::Core {
 public:
  Core(const HttpServerOptions& options, Router router)
      : options_(options),
        router_(std::move(router)),
        context_(std::make_unique<asio::io_context>()),
        acceptor_(std::make_unique<tcp::acceptor>(*context_)),
        retry_(std::make_unique<asio::steady_timer>(*context_)) {}

  absl::Status Bind() {
    auto endpoint = Resolve(*context_, options_.address);
    if (!endpoint.ok()) return endpoint.status();
    boost::system::error_code error;
    acceptor_->open(endpoint->protocol(), error);
    if (!error) acceptor_->set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_->bind(*endpoint, error);
    if (!error) acceptor_->listen(asio::socket_base::max_listen_connections, error);
    if (!error) endpoint_ = acceptor_->local_endpoint(error);
    if (error) return CannotListen(options_.address, error.message());
    return absl::OkStatus();
  }

  void Accept() {
    acceptor_->async_accept(asio::make_strand(*context_),
                            [this](boost::system::error_code error, tcp::socket socket) {
                              if (error) {
                                RetryAccept(error);
                                return;
                              }
                              Admit(std::move(socket));
                              Accept();
                            });
  }

  void Run() { context_->run(); }
  void Interrupt() {
    if (context_) context_->stop();
  }
  // After all threads left Run.
  void Close() {
    retry_.reset();
    acceptor_.reset();
    context_.reset();
  }
  const HttpServerOptions& options() const { return options_; }
  const tcp::endpoint& endpoint() const { return endpoint_; }
  HttpServerStats stats() const {
    return {counters_.requests, counters_.refused_connections, counters_.evicted_connections,
            counters_.open_connections};
  }

 private:
  void RetryAccept(const boost::system::error_code& error) {
    if (error == asio::error::operation_aborted) return;
    spdlog::warn("cannot accept an HTTP connection: {}", error.message());
    retry_->expires_after(kAcceptRetry);
    retry_->async_wait([this](boost::system::error_code stopped) {
      if (!stopped) Accept();
    });
  }

  void Admit(tcp::socket socket) {
    const size_t open = counters_.open_connections;
    bool full = open >= options_.max_connections;
    if (full) {
      // Who asks nothing makes room for who may. One that was told to close still counts for a moment.
      const std::shared_ptr<HttpSession> oldest = waiting_.TakeOldest();
      if (oldest != nullptr) oldest->Evict();
      full = oldest == nullptr;
    }
    if (full) ++counters_.refused_connections;
    if (full && open >= options_.max_connections + kRefusalsAtOnce) return;
    auto session = std::make_shared<HttpSession>(std::move(socket), router_, counters_, waiting_,
                                                 absl::ToChronoNanoseconds(options_.idle_timeout));
    if (full) {
      session->Refuse();
    } else {
      session->Serve();
    }
  }

  const HttpServerOptions options_;
  const Router router_;
  HttpCounters counters_;
  WaitingSessions waiting_;
  tcp::endpoint endpoint_;
  std::unique_ptr<asio::io_context> context_;
  std::unique_ptr<tcp::acceptor> acceptor_;
  std::unique_ptr<asio::steady_timer> retry_;
};

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Listen(const HttpServerOptions& options,
                                                               Router router) {
  if (options.threads < 1) return absl::InvalidArgumentError("the HTTP server needs at least one thread");
  auto core = std::make_unique<Core>(options, std::move(router));
  if (absl::Status bound = core->Bind(); !bound.ok()) return bound;
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(core)));
}

HttpServer::HttpServer(std::unique_ptr<Core> core) : core_(std::move(core)) {}

HttpServer::~HttpServer() { Stop(); }

void HttpServer::Start() {
  core_->Accept();
  for (size_t i = 0; i < core_->options().threads; ++i) {
    threads_.emplace_back([this, i] {
      pthread_setname_np(pthread_self(), absl::StrCat("weft-http-", i).c_str());
      core_->Run();
    });
  }
}

void HttpServer::Stop() {
  core_->Interrupt();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  core_->Close();
}

uint16_t HttpServer::port() const { return core_->endpoint().port(); }

std::string HttpServer::address() const {
  const auto host = core_->endpoint().address();
  const std::string text = host.to_string();
  return absl::StrCat(host.is_v6() ? absl::StrCat("[", text, "]") : text, ":", port());
}

HttpServerStats HttpServer::stats() const { return core_->stats(); }

}  // namespace weft
