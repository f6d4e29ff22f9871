// Signatures of Standard Webhooks 1.0, symmetric form "v1": HMAC-SHA256 over "<id>.<timestamp>.<body>". Pure.
// Any thread. Nothing here puts a secret into an error message.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace weft {

// The raw bytes of "whsec_<base64>"; white space around it (a file's last line feed) is allowed.
// kInvalidArgument unless it holds 24 to 64 bytes.
absl::StatusOr<std::string> ParseWebhookSecret(absl::string_view text);

// The three headers of a message.
struct WebhookHeaders {
  std::string id;         // webhook-id: no dot, the same for all attempts
  std::string timestamp;  // webhook-timestamp: seconds since 1970, of the attempt
  std::string signature;  // webhook-signature: one or several, separated by spaces
};

// "v1,<base64>". `secret` is raw bytes, `timestamp` seconds since 1970, `body` the very bytes that are sent.
std::string Sign(absl::string_view secret, absl::string_view id, int64_t timestamp, absl::string_view body);

// OK if one of the signatures is right and the timestamp is within `tolerance` of `now`; kUnauthenticated
// otherwise. The comparison takes the same time wherever the signatures differ.
absl::Status Verify(absl::string_view secret, const WebhookHeaders& headers, absl::string_view body,
                    absl::Time now, absl::Duration tolerance = absl::Minutes(5));

}  // namespace weft
