#include "server/alert/webhook.h"

#include <curl/curl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/alert/address_guard.h"
#include "server/alert/standard_webhooks.h"

namespace weft {
namespace {

CURL* NewHandle() {
  // Once per process and thread-safe; never undone, as other parts of the process may use libcurl too.
  static const CURLcode kInitialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  CURL* curl = kInitialised == CURLE_OK ? curl_easy_init() : nullptr;
  if (curl == nullptr) std::abort();  // out of memory at start
  return curl;
}

template <typename Value>
void Set(void* curl, CURLoption option, Value value) {
  // Fails only for options or values that this libcurl does not know: a fault of the build, and an option
  // about safety must not be lost in silence.
  if (curl_easy_setopt(curl, option, value) != CURLE_OK) std::abort();
}

bool IsNameChar(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-'; }

std::string UrlPart(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, 0) != CURLUE_OK) return "";
  std::string out(text);
  curl_free(text);
  return out;
}

void CheckUrl(const std::string& text, std::vector<std::string>& problems) {
  const std::unique_ptr<CURLU, void (*)(CURLU*)> url(curl_url(), curl_url_cleanup);
  if (text.size() > 2048 || curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) {
    problems.push_back("url is not an absolute http or https address");
    return;
  }
  const std::string scheme = UrlPart(url.get(), CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") problems.push_back("url must be http or https");
  if (!UrlPart(url.get(), CURLUPART_USER).empty() || !UrlPart(url.get(), CURLUPART_PASSWORD).empty())
    problems.push_back("url must not hold a user or password");
}

using Headers = std::unique_ptr<curl_slist, void (*)(curl_slist*)>;

Headers MakeHeaders(const std::vector<std::string>& lines) {
  Headers headers(nullptr, curl_slist_free_all);
  for (const std::string& line : lines) {
    curl_slist* longer = curl_slist_append(headers.get(), line.c_str());
    if (longer == nullptr) std::abort();
    headers.release();
    headers.reset(longer);
  }
  return headers;
}

std::vector<std::string> HeaderLines(const Receiver& receiver, const Delivery& delivery, absl::Time now) {
  const int64_t timestamp = absl::ToUnixSeconds(now);
  std::vector<std::string> lines = {"Content-Type: application/json",
                                    "Accept:", "Expect:", absl::StrCat("webhook-id: ", delivery.id),
                                    absl::StrCat("webhook-timestamp: ", timestamp)};
  if (!receiver.secret.empty()) {
    lines.push_back(
        absl::StrCat("webhook-signature: ", Sign(receiver.secret, delivery.id, timestamp, delivery.body)));
  }
  return lines;
}

}  // namespace

struct WebhookSender::Request {
  const std::atomic<bool>* cancelled = nullptr;
  size_t max_response_bytes = 0;
  size_t response_bytes = 0;
  std::string retry_after;
  std::string denied_address;
  Headers headers{nullptr, curl_slist_free_all};

  static size_t OnBody(char*, size_t size, size_t count, void* self) {
    auto* request = static_cast<Request*>(self);
    request->response_bytes += size * count;
    return request->response_bytes > request->max_response_bytes ? 0 : size * count;
  }

  static size_t OnHeader(char* data, size_t size, size_t count, void* self) {
    const absl::string_view line(data, size * count);
    constexpr absl::string_view kName = "retry-after:";
    if (absl::StartsWithIgnoreCase(line, kName))
      static_cast<Request*>(self)->retry_after =
          std::string(absl::StripAsciiWhitespace(line.substr(kName.size())));
    return size * count;
  }

  static int OnProgress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return static_cast<Request*>(self)->cancelled->load() ? 1 : 0;
  }

  // Sees the very address that is connected to: a name that changes its mind between a check and the
  // connection gains nothing.
  static curl_socket_t OnOpenSocket(void* self, curlsocktype, curl_sockaddr* address) {
    if (IsDeniedAddress(address->addr)) {
      static_cast<Request*>(self)->denied_address = AddressText(address->addr);
      return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  }
};

absl::Status ValidateReceiver(const Receiver& receiver) {
  std::vector<std::string> problems;
  const std::string& name = receiver.name;
  if (name.empty() || name.size() > 64 || !std::all_of(name.begin(), name.end(), IsNameChar))
    problems.push_back("name must be 1 to 64 characters of [a-z0-9_-]");
  CheckUrl(receiver.url, problems);
  if (!receiver.secret.empty() && (receiver.secret.size() < 24 || receiver.secret.size() > 64))
    problems.push_back("secret must hold 24 to 64 bytes");
  if (problems.empty()) return absl::OkStatus();
  const std::string shown = std::all_of(name.begin(), name.end(), IsNameChar) ? name : "?";
  return absl::InvalidArgumentError(
      absl::StrCat("receiver \"", shown, "\": ", absl::StrJoin(problems, "; ")));
}

WebhookSender::WebhookSender(WebhookSenderOptions options)
    : options_(std::move(options)), curl_(NewHandle()) {}

WebhookSender::~WebhookSender() { curl_easy_cleanup(curl_); }

void WebhookSender::SetLimits() {
  Set(curl_, CURLOPT_PROTOCOLS_STR, "http,https");
  Set(curl_, CURLOPT_FOLLOWLOCATION, 0L);
  Set(curl_, CURLOPT_PROXY, "");
  Set(curl_, CURLOPT_NOPROXY, "*");
  Set(curl_, CURLOPT_CONNECTTIMEOUT_MS,
      static_cast<long>(absl::ToInt64Milliseconds(options_.connect_timeout)));
  Set(curl_, CURLOPT_TIMEOUT_MS, static_cast<long>(absl::ToInt64Milliseconds(options_.total_timeout)));
  Set(curl_, CURLOPT_NOSIGNAL, 1L);
  Set(curl_, CURLOPT_SSL_VERIFYPEER, 1L);
  Set(curl_, CURLOPT_SSL_VERIFYHOST, 2L);
  Set(curl_, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  Set(curl_, CURLOPT_USERAGENT, "weft");
  if (!options_.ca_file.empty()) Set(curl_, CURLOPT_CAINFO, options_.ca_file.c_str());
}

void WebhookSender::SetCallbacks(Request& request) {
  Set(curl_, CURLOPT_WRITEFUNCTION, &Request::OnBody);
  Set(curl_, CURLOPT_WRITEDATA, &request);
  Set(curl_, CURLOPT_HEADERFUNCTION, &Request::OnHeader);
  Set(curl_, CURLOPT_HEADERDATA, &request);
  Set(curl_, CURLOPT_NOPROGRESS, 0L);
  Set(curl_, CURLOPT_XFERINFOFUNCTION, &Request::OnProgress);
  Set(curl_, CURLOPT_XFERINFODATA, &request);
  Set(curl_, CURLOPT_OPENSOCKETFUNCTION, &Request::OnOpenSocket);
  Set(curl_, CURLOPT_OPENSOCKETDATA, &request);
}

void WebhookSender::Prepare(const Receiver& receiver, const Delivery& delivery, Request& request) {
  curl_easy_reset(curl_);  // keeps connections and resolved names
  SetLimits();
  SetCallbacks(request);
  Set(curl_, CURLOPT_URL, receiver.url.c_str());
  Set(curl_, CURLOPT_HTTPHEADER, request.headers.get());
  Set(curl_, CURLOPT_POST, 1L);
  Set(curl_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(delivery.body.size()));
  Set(curl_, CURLOPT_POSTFIELDS, delivery.body.data());
}

AttemptResult WebhookSender::ResultOf(int curl_code, const Request& request) {
  const auto code = static_cast<CURLcode>(curl_code);
  long status = 0, sent = 0;
  curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(curl_, CURLINFO_REQUEST_SIZE, &sent);
  AttemptResult result;
  result.status = status >= 200 ? static_cast<int>(status) : 0;
  result.retry_after = request.retry_after;
  result.maybe_sent = result.status == 0 && sent > 0;
  if (result.status >= 200 && result.status < 300) return result;
  if (result.status != 0) {
    result.error = absl::StrCat("answered HTTP ", result.status);
  } else if (!request.denied_address.empty() && sent == 0) {
    result.denied = true;
    result.error = absl::StrCat("refused to connect to ", request.denied_address,
                                ": link-local, metadata and special addresses are never notified");
  } else {
    result.error = cancelled_ ? "cut off by shutdown" : curl_easy_strerror(code);
  }
  return result;
}

AttemptResult WebhookSender::Send(const Receiver& receiver, const Delivery& delivery, absl::Time now) {
  if (absl::Status valid = ValidateReceiver(receiver); !valid.ok()) {
    AttemptResult result;
    result.denied = true;
    result.error = std::string(valid.message());
    return result;
  }
  Request request;
  request.cancelled = &cancelled_;
  request.max_response_bytes = options_.max_response_bytes;
  request.headers = MakeHeaders(HeaderLines(receiver, delivery, now));
  Prepare(receiver, delivery, request);
  return ResultOf(curl_easy_perform(curl_), request);
}

}  // namespace weft
