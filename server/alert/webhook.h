// Sends notifications over HTTP as Standard Webhooks says.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "fleet/finding.h"
#include "server/alert/outbox.h"

namespace weft {

// Where notifications go: a generic JSON webhook.
struct Receiver {
  std::string name;    // [a-z0-9_-], 1 to 64
  std::string url;     // http or https, without user and password
  std::string secret;  // raw bytes of ParseWebhookSecret; empty: not signed
};

// kInvalidArgument with all problems. Never shows the URL: it may be a secret itself.
absl::Status ValidateReceiver(const Receiver& receiver);

struct WebhookSenderOptions {
  absl::Duration connect_timeout = absl::Seconds(5);
  absl::Duration total_timeout = absl::Seconds(15);  // from name resolution to the last byte of the answer
  size_t max_response_bytes = 64 * 1024;             // read and thrown away; more ends the connection
  std::string ca_file;                               // PEM; empty: the system's authorities
};

// Blocking HTTP client with one connection cache. Use from one thread; Cancel from any. Give each receiver
// its own, so that one that hangs holds up nobody else's.
//
// http and https only, no redirects, no proxies from the environment, TLS verified, addresses of
// address_guard.h refused at the moment of connecting (whatever the name resolved to before). Loopback and
// private addresses are allowed, since receivers are the operator's own configuration.
class WebhookSender {
 public:
  explicit WebhookSender(WebhookSenderOptions options = {});
  ~WebhookSender();
  WebhookSender(const WebhookSender&) = delete;
  WebhookSender& operator=(const WebhookSender&) = delete;

  // POSTs delivery.body, signed with `now` as webhook-timestamp. The status line is the verdict: what goes
  // wrong after a 2xx line does not make it less accepted.
  AttemptResult Send(const Receiver& receiver, const Delivery& delivery, absl::Time now);

  // Ends an attempt under way within about a second and makes all later ones fail at once.
  void Cancel() { cancelled_ = true; }

 private:
  struct Request;  // what libcurl's callbacks see of one attempt
  void Prepare(const Receiver& receiver, const Delivery& delivery, Request& request);
  void SetLimits();
  void SetCallbacks(Request& request);
  AttemptResult ResultOf(int curl_code, const Request& request);

  const WebhookSenderOptions options_;
  void* const curl_;  // CURL easy handle, reused so that connections are
  std::atomic<bool> cancelled_ = false;
};

}  // namespace weft
