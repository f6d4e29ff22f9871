#include "server/alert/standard_webhooks.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

constexpr char kSecretText[] = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
constexpr char kBody[] =
    "{\"type\":\"alert.opened\",\"data\":{\"node\":\"n\xc3\xb6"
    "de-1\"}}";
constexpr char kSignature[] = "v1,LtnvTzyYBesSm9oMqxHBOWIpXpDoDNmQsWJCmGG6uII=";
constexpr int64_t kTimestamp = 1767225600;

std::string Secret() { return *ParseWebhookSecret(kSecretText); }
absl::Time At(int64_t seconds) { return absl::FromUnixSeconds(seconds); }
WebhookHeaders Good() { return {"evt_0001", "1767225600", kSignature}; }

TEST(StandardWebhooks, SignsThePublishedVector) {
  EXPECT_EQ(Sign(Secret(), "evt_0001", kTimestamp, kBody), kSignature);
}

TEST(StandardWebhooks, VerifiesWhatItSigned) {
  EXPECT_TRUE(Verify(Secret(), Good(), kBody, At(kTimestamp)).ok());
}

TEST(StandardWebhooks, AnyOneOfSeveralSignaturesSuffices) {
  WebhookHeaders headers = Good();
  headers.signature = std::string("v1,AAAA v1a,xyz ") + kSignature + " v1,BBBB";
  EXPECT_TRUE(Verify(Secret(), headers, kBody, At(kTimestamp)).ok());
}

TEST(StandardWebhooks, EveryChangedPartIsRefused) {
  const std::string secret = Secret();
  std::string other = secret;
  other[0] = 'x';
  EXPECT_FALSE(Verify(other, Good(), kBody, At(kTimestamp)).ok());
  EXPECT_FALSE(Verify(secret, Good(), std::string(kBody) + " ", At(kTimestamp)).ok());
  for (size_t i = 0; i < 2; ++i) {
    WebhookHeaders headers = Good();
    (i == 0 ? headers.id : headers.timestamp).back() ^= 1;
    EXPECT_FALSE(Verify(secret, headers, kBody, At(kTimestamp)).ok());
  }
  WebhookHeaders headers = Good();
  headers.signature.clear();
  EXPECT_FALSE(Verify(secret, headers, kBody, At(kTimestamp)).ok());
  headers.signature = std::string(kSignature).substr(0, 20);
  EXPECT_FALSE(Verify(secret, headers, kBody, At(kTimestamp)).ok());
}

TEST(StandardWebhooks, OldAndFutureTimestampsAreRefused) {
  EXPECT_TRUE(Verify(Secret(), Good(), kBody, At(kTimestamp + 300)).ok());
  EXPECT_FALSE(Verify(Secret(), Good(), kBody, At(kTimestamp + 301)).ok());
  EXPECT_FALSE(Verify(Secret(), Good(), kBody, At(kTimestamp - 301)).ok());
  WebhookHeaders headers = Good();
  headers.timestamp = "soon";
  EXPECT_FALSE(Verify(Secret(), headers, kBody, At(kTimestamp)).ok());
}

TEST(StandardWebhooks, SecretsHave24To64Bytes) {
  const auto of = [](size_t bytes) { return "whsec_" + std::string(bytes / 3 * 4, 'A'); };
  EXPECT_FALSE(ParseWebhookSecret(of(21)).ok());
  EXPECT_EQ(ParseWebhookSecret(of(24))->size(), 24u);
  EXPECT_EQ(ParseWebhookSecret(of(63))->size(), 63u);
  EXPECT_FALSE(ParseWebhookSecret(of(66)).ok());
}

TEST(StandardWebhooks, SecretFilesMayEndInALineFeed) {
  EXPECT_EQ(*ParseWebhookSecret(std::string(kSecretText) + "\n"), Secret());
}

TEST(StandardWebhooks, AMalformedSecretIsRefusedWithoutShowingIt) {
  for (const char* text : {"", "whsec_", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
                           "whsec_!!ECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}) {
    const absl::StatusOr<std::string> secret = ParseWebhookSecret(text);
    ASSERT_FALSE(secret.ok()) << text;
    EXPECT_EQ(secret.status().message().find("ECAw"), absl::string_view::npos);
  }
}

}  // namespace
}  // namespace weft
