#include "server/http/router.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>
#include <exception>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text.h"
#include "server/http/gzip.h"
#include "spdlog/spdlog.h"

namespace weft {
namespace {

// Smaller bodies gain nothing.
constexpr size_t kLeastCompressedBytes = 1024;

struct Target {
  std::vector<std::string> segments;
  std::map<std::string, std::string> query;
};

std::optional<Target> ParseTarget(const std::string& text) {
  auto url = boost::urls::parse_origin_form(text);
  if (!url) return std::nullopt;
  Target target;
  for (const auto& segment : url->segments()) {
    target.segments.emplace_back(segment.data(), segment.size());
    if (!IsValidUtf8(target.segments.back())) return std::nullopt;
  }
  for (const auto& parameter : url->params()) {
    std::string key(parameter.key.data(), parameter.key.size());
    std::string value(parameter.value.data(), parameter.value.size());
    if (!IsValidUtf8(key) || !IsValidUtf8(value)) return std::nullopt;
    target.query[std::move(key)] = std::move(value);
  }
  return target;
}

bool IsPlaceholder(absl::string_view segment) {
  return absl::StartsWith(segment, "{") && absl::EndsWith(segment, "}");
}

bool MatchSegments(const std::vector<std::string>& pattern, const std::vector<std::string>& path,
                   std::map<std::string, std::string>& parameters) {
  if (pattern.size() != path.size()) return false;
  parameters.clear();
  for (size_t i = 0; i < path.size(); ++i) {
    if (!IsPlaceholder(pattern[i])) {
      if (pattern[i] != path[i]) return false;
      continue;
    }
    if (path[i].empty()) return false;
    parameters[pattern[i].substr(1, pattern[i].size() - 2)] = path[i];
  }
  return true;
}

HttpResponse Run(const Router::Handler& handler, const HttpRequest& request) {
  try {
    return handler(request);
  } catch (const std::exception& error) {
    spdlog::error("an HTTP handler threw: {}", EscapeControl(error.what()));
    return ErrorResponse(500, absl::StatusCode::kInternal, "The server failed to answer; its log says more.");
  }
}

void Compress(const RawHttpRequest& request, HttpResponse& response) {
  if (response.body.size() < kLeastCompressedBytes) return;
  response.headers.emplace_back("Vary", "Accept-Encoding");
  if (!AcceptsGzip(request.accept_encoding)) return;
  auto compressed = Gzip(response.body);
  if (!compressed.ok()) return;
  response.body = *std::move(compressed);
  response.headers.emplace_back("Content-Encoding", "gzip");
}

}  // namespace

HttpResponse ErrorResponse(unsigned http_status, absl::StatusCode code, absl::string_view message) {
  google::protobuf::Struct status;
  (*status.mutable_fields())["code"].set_number_value(static_cast<int>(code));
  (*status.mutable_fields())["message"].set_string_value(ToValidUtf8(message));
  (*status.mutable_fields())["details"].mutable_list_value();
  HttpResponse response{http_status, "application/json", "", {}};
  if (!google::protobuf::util::MessageToJsonString(status, &response.body).ok()) response.body = "{}";
  return response;
}

void Router::Get(absl::string_view pattern, Handler handler) {
  if (absl::StartsWith(pattern, "/")) pattern.remove_prefix(1);
  entries_.push_back({absl::StrSplit(pattern, '/'), std::move(handler)});
}

const Router::Entry* Router::Match(const std::vector<std::string>& path, HttpRequest& request) const {
  for (const Entry& entry : entries_) {
    if (MatchSegments(entry.segments, path, request.path_parameters)) return &entry;
  }
  return nullptr;
}

HttpResponse Router::Route(const RawHttpRequest& raw) const {
  if (raw.method != "GET" && raw.method != "HEAD") {
    HttpResponse refused =
        ErrorResponse(405, absl::StatusCode::kUnimplemented, "Only GET and HEAD are answered here.");
    refused.headers.emplace_back("Allow", "GET, HEAD");
    return refused;
  }
  auto target = ParseTarget(raw.target);
  if (!target)
    return ErrorResponse(400, absl::StatusCode::kInvalidArgument, "The request target is not a valid path.");
  if (target->segments.empty()) target->segments.emplace_back();  // "/" is one empty segment in a pattern
  HttpRequest request{{}, std::move(target->query), raw.if_none_match, raw.host};
  const Entry* entry = Match(target->segments, request);
  if (entry == nullptr)
    return ErrorResponse(404, absl::StatusCode::kNotFound, "Nothing is served at this path.");
  HttpResponse response = Run(entry->handler, request);
  Compress(raw, response);
  return response;
}

}  // namespace weft
