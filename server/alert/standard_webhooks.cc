#include "server/alert/standard_webhooks.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace weft {
namespace {

std::string HmacSha256(absl::string_view key, absl::string_view data) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> out;
  unsigned int length = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(data.data());
  // Fails only without memory or SHA-256: nothing can be signed then.
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes, data.size(), out.data(), &length) ==
      nullptr)
    std::abort();
  return std::string(reinterpret_cast<const char*>(out.data()), length);
}

bool SameBytes(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

absl::StatusOr<std::string> ParseWebhookSecret(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  std::string secret;
  if (!absl::ConsumePrefix(&text, "whsec_") || !absl::Base64Unescape(text, &secret)) {
    return absl::InvalidArgumentError("webhook secret: must be \"whsec_\" followed by base64");
  }
  if (secret.size() < 24 || secret.size() > 64) {
    return absl::InvalidArgumentError(
        absl::StrCat("webhook secret: must hold 24 to 64 bytes, has ", secret.size()));
  }
  return secret;
}

std::string Sign(absl::string_view secret, absl::string_view id, int64_t timestamp, absl::string_view body) {
  return absl::StrCat("v1,",
                      absl::Base64Escape(HmacSha256(secret, absl::StrCat(id, ".", timestamp, ".", body))));
}

absl::Status Verify(absl::string_view secret, const WebhookHeaders& headers, absl::string_view body,
                    absl::Time now, absl::Duration tolerance) {
  int64_t timestamp = 0;
  if (!absl::SimpleAtoi(headers.timestamp, &timestamp))
    return absl::UnauthenticatedError("webhook: webhook-timestamp is not a number of seconds");
  if (absl::AbsDuration(now - absl::FromUnixSeconds(timestamp)) > tolerance)
    return absl::UnauthenticatedError("webhook: webhook-timestamp is too far from now; see the clocks");
  const std::string expected = Sign(secret, headers.id, timestamp, body);
  bool matches = false;
  for (const absl::string_view offered : absl::StrSplit(headers.signature, ' ', absl::SkipEmpty()))
    matches = SameBytes(offered, expected) || matches;
  if (!matches) return absl::UnauthenticatedError("webhook: no signature matches");
  return absl::OkStatus();
}

}  // namespace weft
