// Messages and errors as HTTP answers. Any thread.
#pragma once

#include <google/protobuf/message.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/http/router.h"

namespace weft {

// The HTTP status that google.rpc.Code gives for a code; 500 for what it does not name.
unsigned HttpStatusOf(absl::StatusCode code);

// The message by protobuf's JSON mapping, fields without a value included; 500 when it cannot be written.
HttpResponse JsonResponse(const google::protobuf::Message& message);

// A failed status with the HTTP status that fits. Server-side failures are logged here.
HttpResponse ErrorResponse(const absl::Status& status);

template <typename T>
HttpResponse JsonResponse(const absl::StatusOr<T>& answer) {
  return answer.ok() ? JsonResponse(*answer) : ErrorResponse(answer.status());
}

}  // namespace weft
