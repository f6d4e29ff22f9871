// One HTTP connection from accept to close. Used by HttpServer only.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"
#include "server/http/router.h"

namespace weft {

// Counters that sessions share. Thread-safe.
struct HttpCounters {
  std::atomic<uint64_t> requests{0};
  std::atomic<uint64_t> refused_connections{0};
  std::atomic<uint64_t> evicted_connections{0};
  std::atomic<size_t> open_connections{0};
};

class HttpSession;

// Sessions that wait for a whole request, by how long they have. Thread-safe.
class WaitingSessions {
 public:
  void Add(HttpSession* session, std::weak_ptr<HttpSession> handle) WEFT_EXCLUDES(mutex_);
  void Remove(HttpSession* session) WEFT_EXCLUDES(mutex_);
  // Takes out the one that has waited longest; null when none waits.
  std::shared_ptr<HttpSession> TakeOldest() WEFT_EXCLUDES(mutex_);

 private:
  using List = std::list<std::pair<HttpSession*, std::weak_ptr<HttpSession>>>;
  Mutex mutex_;
  List oldest_first_ WEFT_GUARDED_BY(mutex_);
  std::unordered_map<HttpSession*, List::iterator> places_ WEFT_GUARDED_BY(mutex_);
};

// Runs on its socket's strand and keeps itself alive while an operation is pending. `router`, `counters` and
// `waiting` outlive the io_context.
class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(boost::asio::ip::tcp::socket socket, const Router& router, HttpCounters& counters,
              WaitingSessions& waiting, std::chrono::steady_clock::duration timeout);
  ~HttpSession();
  HttpSession(const HttpSession&) = delete;
  HttpSession& operator=(const HttpSession&) = delete;

  // Answers requests until the peer closes, errs or is too slow.
  void Serve();
  // Answers 503 without reading and closes.
  void Refuse();
  // Closes the connection to make room. Any thread.
  void Evict();

 private:
  using Error = boost::beast::error_code;
  using Response = boost::beast::http::response<boost::beast::http::string_body>;

  void Read();
  void OnHeader(Error error);
  void Answer(const HttpResponse& response, bool keep_alive, bool head);
  void OnWritten(Error error, bool keep_alive);
  void Linger();
  void OnLingered(Error error, size_t bytes);

  boost::beast::tcp_stream stream_;
  const Router& router_;
  HttpCounters& counters_;
  WaitingSessions& waiting_;
  const std::chrono::steady_clock::duration timeout_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::empty_body>> parser_;
  std::optional<Response> response_;
  size_t lingered_bytes_ = 0;
};

}  // namespace weft
