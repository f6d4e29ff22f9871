// Which handler answers which path. Pure: no socket, no clock; what it is given and what it gives are values.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace weft {

// A request as it came from the wire, header fields that matter included. Untrusted bytes.
struct RawHttpRequest {
  std::string method;
  std::string target;  // origin form, "/path?query"
  std::string accept_encoding;
  std::string if_none_match;
  std::string host;
};

// A request that matched a route. All text is percent-decoded, valid UTF-8.
struct HttpRequest {
  std::map<std::string, std::string> path_parameters;  // by the name in the pattern
  std::map<std::string, std::string> query;            // the last one wins when a name repeats
  std::string if_none_match;
  std::string host;  // as the client called us; untrusted
};

struct HttpResponse {
  unsigned status = 200;
  std::string content_type;
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // beside those that every answer carries
};

// {code, message, details} as google.rpc.Status has it in JSON.
HttpResponse ErrorResponse(unsigned http_status, absl::StatusCode code, absl::string_view message);

// Routes are added before the first Route; after that any thread may route.
class Router {
 public:
  using Handler = std::function<HttpResponse(const HttpRequest&)>;

  // `pattern` is a path such as "/api/v1/nodes/{node}"; a part in braces matches one non-empty segment.
  // The first pattern that matches wins. Handlers run on the caller's thread and may be called at the same
  // time. One that throws is answered with 500.
  void Get(absl::string_view pattern, Handler handler);

  // Always gives an answer: 400 for a target that is no valid path or not UTF-8 when decoded, 405 for other
  // methods than GET and HEAD, 404 for an unknown path. Compresses the body if the client takes gzip and it
  // is worth it. Keeps the body for HEAD: whoever sends leaves it out, but its length stands in the header.
  HttpResponse Route(const RawHttpRequest& request) const;

 private:
  struct Entry {
    std::vector<std::string> segments;
    Handler handler;
  };
  const Entry* Match(const std::vector<std::string>& path, HttpRequest& request) const;

  std::vector<Entry> entries_;
};

}  // namespace weft
