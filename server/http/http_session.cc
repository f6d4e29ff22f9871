#include "server/http/http_session.h"

#include <boost/asio/dispatch.hpp>
#include <boost/beast/core/bind_handler.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace weft {
namespace {

namespace http = boost::beast::http;

constexpr uint32_t kMaxHeaderBytes = 16 * 1024;
// A closing connection is read for this long, so that the peer sees the answer and not a reset.
constexpr auto kLinger = std::chrono::seconds(1);
constexpr size_t kMaxLingerBytes = 256 * 1024;

HttpResponse BadHeader(const boost::beast::error_code& error) {
  if (error == http::error::header_limit) {
    return ErrorResponse(431, absl::StatusCode::kInvalidArgument,
                         "The request header is longer than 16 KiB.");
  }
  return ErrorResponse(400, absl::StatusCode::kInvalidArgument, "This is no HTTP/1.1 request.");
}

bool IsProtocolError(const boost::beast::error_code& error) {
  return error.category() == http::make_error_code(http::error::bad_method).category() &&
         error != http::error::end_of_stream && error != http::error::partial_message;
}

std::string Text(boost::beast::string_view text) { return std::string(text.data(), text.size()); }

RawHttpRequest ToRaw(const http::request<http::empty_body>& request) {
  return {Text(request.method_string()), Text(request.target()), Text(request[http::field::accept_encoding]),
          Text(request[http::field::if_none_match]), Text(request[http::field::host])};
}

void SetSecurityHeaders(http::fields& fields) {
  fields.set("Content-Security-Policy",
             "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
             "object-src 'none'");
  fields.set("X-Content-Type-Options", "nosniff");
  fields.set("X-Frame-Options", "DENY");
  fields.set("Referrer-Policy", "no-referrer");
  fields.set("Cross-Origin-Resource-Policy", "same-origin");
}

http::response<http::string_body> ToBeast(const HttpResponse& from, bool keep_alive, bool head) {
  http::response<http::string_body> to(static_cast<http::status>(from.status), 11);
  SetSecurityHeaders(to);
  to.set(http::field::cache_control, "no-store");
  if (!from.content_type.empty()) to.set(http::field::content_type, from.content_type);
  for (const auto& [name, value] : from.headers) to.set(name, value);
  to.keep_alive(keep_alive);
  if (from.status != 304) to.content_length(from.body.size());
  if (!head) to.body() = from.body;
  return to;
}

}  // namespace

void WaitingSessions::Add(HttpSession* session, std::weak_ptr<HttpSession> handle) {
  MutexLock lock(mutex_);
  places_[session] = oldest_first_.emplace(oldest_first_.end(), session, std::move(handle));
}

void WaitingSessions::Remove(HttpSession* session) {
  MutexLock lock(mutex_);
  const auto place = places_.find(session);
  if (place == places_.end()) return;
  oldest_first_.erase(place->second);
  places_.erase(place);
}

std::shared_ptr<HttpSession> WaitingSessions::TakeOldest() {
  MutexLock lock(mutex_);
  while (!oldest_first_.empty()) {
    std::shared_ptr<HttpSession> session = oldest_first_.front().second.lock();
    places_.erase(oldest_first_.front().first);
    oldest_first_.pop_front();
    if (session != nullptr) return session;
  }
  return nullptr;
}

HttpSession::HttpSession(boost::asio::ip::tcp::socket socket, const Router& router, HttpCounters& counters,
                         WaitingSessions& waiting, std::chrono::steady_clock::duration timeout)
    : stream_(std::move(socket)),
      router_(router),
      counters_(counters),
      waiting_(waiting),
      timeout_(timeout),
      buffer_(2 * kMaxHeaderBytes) {
  ++counters_.open_connections;
}

HttpSession::~HttpSession() {
  waiting_.Remove(this);
  --counters_.open_connections;
}

void HttpSession::Serve() {
  boost::asio::dispatch(stream_.get_executor(), [self = shared_from_this()] { self->Read(); });
}

void HttpSession::Refuse() {
  boost::asio::dispatch(stream_.get_executor(), [self = shared_from_this()] {
    self->Answer(
        ErrorResponse(503, absl::StatusCode::kResourceExhausted, "Too many connections; try again later."),
        false, false);
  });
}

void HttpSession::Evict() {
  ++counters_.evicted_connections;
  boost::asio::dispatch(stream_.get_executor(), [self = shared_from_this()] { self->stream_.close(); });
}

// The deadline holds for the whole header and is not moved by single bytes.
void HttpSession::Read() {
  parser_.emplace();
  parser_->header_limit(kMaxHeaderBytes);
  parser_->body_limit(boost::none);  // a body is refused by OnHeader, unread
  stream_.expires_after(timeout_);
  waiting_.Add(this, weak_from_this());
  http::async_read_header(stream_, buffer_, *parser_,
                          [self = shared_from_this()](Error error, size_t) { self->OnHeader(error); });
}

void HttpSession::OnHeader(Error error) {
  waiting_.Remove(this);
  if (error) {
    // Anything but a protocol error is a peer that left or was too slow: nobody to answer.
    if (IsProtocolError(error)) Answer(BadHeader(error), false, false);
    return;
  }
  const auto& request = parser_->get();
  const bool head = request.method() == http::verb::head;
  if (!parser_->is_done() && (head || request.method() == http::verb::get)) {
    Answer(ErrorResponse(413, absl::StatusCode::kInvalidArgument, "A request body is not taken here."), false,
           head);
    return;
  }
  Answer(router_.Route(ToRaw(request)), parser_->is_done() && request.keep_alive(), head);
}

void HttpSession::Answer(const HttpResponse& response, bool keep_alive, bool head) {
  ++counters_.requests;
  response_.emplace(ToBeast(response, keep_alive, head));
  stream_.expires_after(timeout_);
  http::async_write(stream_, *response_, [self = shared_from_this(), keep_alive](Error error, size_t) {
    self->OnWritten(error, keep_alive);
  });
}

void HttpSession::OnWritten(Error error, bool keep_alive) {
  response_.reset();
  if (error) return;
  if (keep_alive) {
    Read();
    return;
  }
  stream_.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send, error);
  if (error) return;
  stream_.expires_after(kLinger);
  Linger();
}

void HttpSession::Linger() {
  buffer_.clear();
  stream_.async_read_some(
      buffer_.prepare(kMaxHeaderBytes),
      [self = shared_from_this()](Error error, size_t bytes) { self->OnLingered(error, bytes); });
}

void HttpSession::OnLingered(Error error, size_t bytes) {
  lingered_bytes_ += bytes;
  if (!error && lingered_bytes_ < kMaxLingerBytes) Linger();
}

}  // namespace weft
