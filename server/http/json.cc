#include "server/http/json.h"

#include <google/protobuf/util/json_util.h>

#include <string>

#include "base/text.h"
#include "spdlog/spdlog.h"

namespace weft {

unsigned HttpStatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kAlreadyExists:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kCancelled:
      return 499;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

HttpResponse JsonResponse(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  HttpResponse response{200, "application/json", "", {}};
  const auto written = google::protobuf::util::MessageToJsonString(message, &response.body, options);
  if (written.ok()) return response;
  return ErrorResponse(absl::InternalError("cannot write the answer as JSON: " + written.ToString()));
}

HttpResponse ErrorResponse(const absl::Status& status) {
  const unsigned http_status = HttpStatusOf(status.code());
  if (http_status >= 500) spdlog::error("HTTP request failed: {}", EscapeControl(status.ToString()));
  return ErrorResponse(http_status, status.code(), status.message());
}

}  // namespace weft
