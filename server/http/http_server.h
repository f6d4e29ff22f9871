// The HTTP port: sockets, limits and time-outs. What is answered is the Router's business.
//
// Limits: GET and HEAD without a body; header at most 16 KiB; a request must be whole, and its answer taken,
// within `idle_timeout` each, however slowly bytes trickle; at most `max_connections` at once: a further one
// takes the place of the one that has waited longest without a whole request, or gets 503 where all are busy.
// HTTP/1.1 keep-alive. Not for: TLS (put a proxy in front), uploads, WebSockets.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/http/router.h"

namespace weft {

struct HttpServerOptions {
  std::string address = "127.0.0.1:7480";  // or "[::]:7480", "localhost:0"; port 0 takes a free one
  size_t threads = 2;                      // at least 1; also the number of handlers that run at once
  size_t max_connections = 256;
  absl::Duration idle_timeout = absl::Seconds(30);
};

struct HttpServerStats {
  uint64_t requests = 0;             // answered, refused ones included
  uint64_t refused_connections = 0;  // for want of room
  uint64_t evicted_connections = 0;  // without a request, to make room
  size_t open_connections = 0;
};

// Start and Stop from one thread, once each; stats, port and address from any. The destructor stops.
class HttpServer {
 public:
  // Binds and listens, answers nothing yet. kInvalidArgument for a malformed address, kUnavailable when it
  // cannot be bound (in use, not ours, not permitted), with the reason.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Listen(const HttpServerOptions& options, Router router);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Starts the threads "weft-http-0", "weft-http-1", …
  void Start();
  // Waits for handlers under way, closes all connections and the port. Idempotent.
  void Stop();

  // The port that is really bound.
  uint16_t port() const;
  // "host:port" with the real port; an IPv6 host in brackets.
  std::string address() const;
  HttpServerStats stats() const;

 private:
  class Core;
  explicit HttpServer(std::unique_ptr<Core> core);

  std::unique_ptr<Core> core_;
  std::vector<std::thread> threads_;
};

}  // namespace weft
