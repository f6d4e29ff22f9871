#include "server/alert/webhook.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cstdlib>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "google/protobuf/util/json_util.h"
#include "server/alert/address_guard.h"
#include "server/alert/episodes.h"
#include "server/alert/standard_webhooks.h"
#include "weft/v1/finding.pb.h"

namespace weft {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;
using Request = http::request<http::string_body>;

const absl::Time kNow = absl::FromUnixSeconds(1767225600);
const std::string kSecret(32, 'k');  // NOLINT: a test's key

std::string Answer(int status, const std::string& headers = "", const std::string& body = "") {
  return absl::StrCat("HTTP/1.1 ", status, " X\r\nContent-Length: ", body.size(), "\r\n", headers, "\r\n",
                      body);
}

// What the receiver does with one request, after having read all of it.
using Behaviour = std::function<void(Tcp::socket&)>;

Behaviour Says(std::string answer) {
  return [answer](Tcp::socket& socket) {
    boost::system::error_code error;
    asio::write(socket, asio::buffer(answer), error);
  };
}

// Waits until the other side goes.
void AwaitEnd(Tcp::socket& socket) {
  boost::system::error_code error;
  char byte = 0;
  while (!error) socket.read_some(asio::buffer(&byte, 1), error);
}

Behaviour SaysAndHangs(std::string start) {
  return [start](Tcp::socket& socket) {
    Says(start)(socket);
    AwaitEnd(socket);
  };
}

Behaviour SaysAndResets(std::string start) {
  return [start](Tcp::socket& socket) {
    Says(start)(socket);
    boost::system::error_code error;
    socket.set_option(asio::socket_base::linger(true, 0), error);
    socket.close(error);
  };
}

// A real HTTP receiver on a port of its own, with a script of behaviours; past its end it answers 200.
class TestReceiver {
 public:
  TestReceiver() : acceptor_(context_, Tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
    thread_ = std::thread([this] { Loop(); });
  }
  ~TestReceiver() {
    {
      MutexLock lock(mutex_);
      stop_ = true;
      if (socket_) shutdown(socket_->native_handle(), SHUT_RDWR);
    }
    shutdown(acceptor_.native_handle(), SHUT_RDWR);
    thread_.join();
  }

  std::string Url() const {
    return absl::StrCat("http://127.0.0.1:", acceptor_.local_endpoint().port(), "/hook");
  }
  void Then(Behaviour behaviour) {
    MutexLock lock(mutex_);
    script_.push_back(std::move(behaviour));
  }
  std::vector<Request> Requests() {
    MutexLock lock(mutex_);
    return requests_;
  }
  Request LastRequest() {
    MutexLock lock(mutex_);
    return requests_.back();
  }
  int Connections() {
    MutexLock lock(mutex_);
    return connections_;
  }
  void AwaitRequests(size_t count) {
    MutexLock lock(mutex_);
    while (requests_.size() < count) cv_.WaitFor(mutex_, std::chrono::milliseconds(100));
  }

 private:
  void Loop() {
    while (true) {
      Tcp::socket socket(context_);
      boost::system::error_code error;
      acceptor_.accept(socket, error);
      if (error) return;
      {
        MutexLock lock(mutex_);
        if (stop_) return;
        ++connections_;
        socket_ = &socket;
      }
      Serve(socket);
      MutexLock lock(mutex_);
      socket_ = nullptr;
    }
  }

  void Serve(Tcp::socket& socket) {
    boost::beast::flat_buffer buffer;
    while (socket.is_open()) {
      Request request;
      boost::system::error_code error;
      http::read(socket, buffer, request, error);
      if (error) return;
      NextBehaviour(std::move(request))(socket);
    }
  }

  Behaviour NextBehaviour(Request request) {
    MutexLock lock(mutex_);
    requests_.push_back(std::move(request));
    cv_.NotifyAll();
    if (script_.empty()) return Says(Answer(200));
    Behaviour next = script_.front();
    script_.pop_front();
    return next;
  }

  asio::io_context context_;
  Tcp::acceptor acceptor_;
  Mutex mutex_;
  CondVar cv_;
  bool stop_ WEFT_GUARDED_BY(mutex_) = false;
  Tcp::socket* socket_ WEFT_GUARDED_BY(mutex_) = nullptr;
  int connections_ WEFT_GUARDED_BY(mutex_) = 0;
  std::deque<Behaviour> script_ WEFT_GUARDED_BY(mutex_);
  std::vector<Request> requests_ WEFT_GUARDED_BY(mutex_);
  std::thread thread_;
};

std::string Header(const Request& request, const char* name) { return std::string(request[name]); }

Delivery Message(std::string id = "msg_1", std::string body = "{}") {
  Delivery delivery;
  delivery.id = std::move(id);
  delivery.receiver = "pager";
  delivery.episode_id = "e1";
  delivery.sequence = 1;
  delivery.body = std::move(body);
  delivery.create_time = kNow;
  delivery.not_before = kNow;
  return delivery;
}

class Webhook : public testing::Test {
 protected:
  AttemptResult Send(const Delivery& delivery = Message(), absl::Time now = kNow) {
    return sender_.Send(To(), delivery, now);
  }
  Receiver To() { return {"pager", receiver_.Url(), kSecret}; }

  TestReceiver receiver_;
  WebhookSender sender_;
  WebhookSender hasty_{[] {
    WebhookSenderOptions options;
    options.total_timeout = absl::Milliseconds(300);
    return options;
  }()};
};

TEST_F(Webhook, TheReceiverCanVerifyTheRawBytes) {
  const Delivery delivery = Message("msg_7",
                                    "{\"node\":\"n\xc3\xb6"
                                    "de-\xe8\x8a\x82\xe7\x82\xb9\"}");
  EXPECT_EQ(Send(delivery).status, 200);
  const Request request = receiver_.Requests().at(0);
  EXPECT_EQ(request.method(), http::verb::post);
  EXPECT_EQ(request.target(), "/hook");
  EXPECT_EQ(Header(request, "Content-Type"), "application/json");
  EXPECT_EQ(Header(request, "Content-Length"), absl::StrCat(delivery.body.size()));
  EXPECT_EQ(Header(request, "webhook-id"), "msg_7");
  EXPECT_EQ(Header(request, "webhook-timestamp"), "1767225600");
  EXPECT_EQ(request.body(), delivery.body);
  const WebhookHeaders headers = {Header(request, "webhook-id"), Header(request, "webhook-timestamp"),
                                  Header(request, "webhook-signature")};
  EXPECT_TRUE(Verify(kSecret, headers, request.body(), kNow).ok());
}

std::string RandomName(std::mt19937& random) {
  std::uniform_int_distribution<uint32_t> point(1, 0x10ffff), length(1, 60);
  std::string name;
  for (uint32_t left = length(random); left > 0;) {
    const uint32_t p = point(random);
    if (p >= 0xd800 && p < 0xe000) continue;
    --left;
    if (p < 0x80) {
      name += static_cast<char>(p);
    } else if (p < 0x800) {
      name += {static_cast<char>(0xc0 | (p >> 6)), static_cast<char>(0x80 | (p & 0x3f))};
    } else if (p < 0x10000) {
      name += {static_cast<char>(0xe0 | (p >> 12)), static_cast<char>(0x80 | (p >> 6 & 0x3f)),
               static_cast<char>(0x80 | (p & 0x3f))};
    } else {
      name += {static_cast<char>(0xf0 | (p >> 18)), static_cast<char>(0x80 | (p >> 12 & 0x3f)),
               static_cast<char>(0x80 | (p >> 6 & 0x3f)), static_cast<char>(0x80 | (p & 0x3f))};
    }
  }
  return name;
}

TEST_F(Webhook, LengthSignatureAndJsonAgreeForAThousandRandomNames) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 1000; ++i) {
    const Node node = {"id-1", RandomName(random), {}, {}, {}, {}};
    Episode episode;
    episode.id = "e1";
    episode.finding.node_ids = {"id-1"};
    const auto lookup = [&](absl::string_view) { return &node; };
    const Delivery delivery =
        Message(absl::StrCat("msg_", i), EventBody(episode, DeliveryAction::kTrigger, 1, lookup, "", ""));
    ASSERT_EQ(Send(delivery).status, 200);
    const Request request = receiver_.LastRequest();
    ASSERT_EQ(Header(request, "Content-Length"), absl::StrCat(request.body().size()));
    ASSERT_EQ(request.body(), delivery.body);
    const WebhookHeaders headers = {Header(request, "webhook-id"), Header(request, "webhook-timestamp"),
                                    Header(request, "webhook-signature")};
    ASSERT_TRUE(Verify(kSecret, headers, request.body(), kNow).ok());
    v1::WebhookEvent event;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(request.body(), &event).ok());
    ASSERT_EQ(event.data().hostnames(0), node.hostname);
  }
  EXPECT_EQ(receiver_.Connections(), 1);  // the connection is reused
}

TEST_F(Webhook, StatusesAndRetryAfterComeBackAsTheyAre) {
  for (const int status : {202, 400, 404, 410, 429, 500, 503}) {
    receiver_.Then(Says(Answer(status, "Retry-After: 17\r\n", "body")));
    const AttemptResult result = Send();
    EXPECT_EQ(result.status, status);
    EXPECT_EQ(result.retry_after, "17");
    EXPECT_FALSE(result.maybe_sent);
    EXPECT_EQ(result.error.empty(), status == 202) << result.error;
  }
  EXPECT_EQ(Send().retry_after, "");
}

TEST_F(Webhook, RedirectsAreNotFollowed) {
  TestReceiver elsewhere;
  receiver_.Then(Says(Answer(302, absl::StrCat("Location: ", elsewhere.Url(), "\r\n"))));
  const AttemptResult result = Send();
  EXPECT_EQ(result.status, 302);
  EXPECT_EQ(Classify(result), AttemptClass::kSlowRetry);
  EXPECT_EQ(elsewhere.Connections(), 0);
}

TEST_F(Webhook, AReceiverThatNeverAnswersLeavesTheOutcomeUnknown) {
  receiver_.Then(SaysAndHangs(""));
  const AttemptResult result = hasty_.Send(To(), Message(), kNow);
  EXPECT_EQ(result.status, 0);
  EXPECT_TRUE(result.maybe_sent);
  EXPECT_EQ(Classify(result), AttemptClass::kRetry);
}

TEST_F(Webhook, AnInterimAnswerIsNoVerdict) {
  receiver_.Then(SaysAndHangs("HTTP/1.1 102 Processing\r\n\r\n"));
  const AttemptResult result = hasty_.Send(To(), Message(), kNow);
  EXPECT_EQ(result.status, 0);
  EXPECT_TRUE(result.maybe_sent);
}

TEST_F(Webhook, ASlowBodyDoesNotUndoTheVerdict) {
  receiver_.Then(SaysAndHangs("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nx"));
  EXPECT_EQ(hasty_.Send(To(), Message(), kNow).status, 200);
  receiver_.Then(SaysAndHangs("HTTP/1.1 503 X\r\nContent-Length: 1000\r\n\r\nx"));
  EXPECT_EQ(hasty_.Send(To(), Message(), kNow).status, 503);
}

TEST_F(Webhook, AHugeBodyIsNotReadToItsEnd) {
  size_t taken = 0;
  receiver_.Then([&](Tcp::socket& socket) {
    Says("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")(socket);
    const std::string block(1 << 16, 'x');
    boost::system::error_code error;
    while (!error && taken < 1000000000) taken += asio::write(socket, asio::buffer(block), error);
    socket.close(error);
  });
  EXPECT_EQ(Send().status, 200);
  EXPECT_EQ(Send().status, 200);  // served after the first one ended: `taken` is final
  EXPECT_LT(taken, 64u << 20);    // socket buffers and the cap, nowhere near all of it
}

TEST_F(Webhook, AResetBeforeTheAnswerIsUnknownAndOneAfterItIsNot) {
  receiver_.Then(SaysAndResets(""));
  const AttemptResult before = hasty_.Send(To(), Message(), kNow);
  EXPECT_EQ(before.status, 0);
  EXPECT_TRUE(before.maybe_sent);
  EXPECT_FALSE(before.error.empty());
  receiver_.Then(SaysAndResets("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"));
  EXPECT_EQ(hasty_.Send(To(), Message("msg_2"), kNow).status, 200);
}

TEST_F(Webhook, ANewAttemptHasTheSameIdAndItsOwnTimestamp) {
  Send(Message(), kNow);
  Send(Message(), kNow + absl::Seconds(60));
  const std::vector<Request> requests = receiver_.Requests();
  EXPECT_EQ(Header(requests.at(0), "webhook-id"), Header(requests.at(1), "webhook-id"));
  EXPECT_EQ(Header(requests.at(1), "webhook-timestamp"), "1767225660");
}

TEST_F(Webhook, NobodyListeningMeansNothingWasSent) {
  uint16_t port = 0;
  {
    asio::io_context context;
    port = Tcp::acceptor(context, Tcp::endpoint(asio::ip::address_v4::loopback(), 0)).local_endpoint().port();
  }
  const AttemptResult result =
      sender_.Send({"pager", absl::StrCat("http://127.0.0.1:", port), kSecret}, Message(), kNow);
  EXPECT_EQ(result.status, 0);
  EXPECT_FALSE(result.maybe_sent);
  EXPECT_FALSE(result.denied);
  EXPECT_FALSE(result.error.empty());
}

TEST_F(Webhook, AFailedTlsHandshakeSendsNothing) {
  Receiver to = To();
  to.url.replace(0, 4, "https");
  const AttemptResult result = hasty_.Send(to, Message(), kNow);
  EXPECT_EQ(result.status, 0);
  EXPECT_FALSE(result.maybe_sent);
  EXPECT_TRUE(receiver_.Requests().empty());
}

TEST_F(Webhook, ProxiesFromTheEnvironmentAreIgnored) {
  for (const char* name : {"http_proxy", "https_proxy", "all_proxy", "ALL_PROXY"})
    setenv(name, "http://127.0.0.1:1", 1);
  const AttemptResult result = Send();
  for (const char* name : {"http_proxy", "https_proxy", "all_proxy", "ALL_PROXY"}) unsetenv(name);
  EXPECT_EQ(result.status, 200) << result.error;
}

TEST_F(Webhook, CancelEndsAnAttemptUnderWayAndAllLaterOnes) {
  receiver_.Then(SaysAndHangs(""));
  std::thread canceller([&] {
    receiver_.AwaitRequests(1);
    sender_.Cancel();
  });
  const AttemptResult result = Send();  // would last 15 s
  canceller.join();
  EXPECT_TRUE(result.maybe_sent);
  EXPECT_EQ(result.error, "cut off by shutdown");
  EXPECT_EQ(Send().status, 0);
  EXPECT_EQ(receiver_.Requests().size(), 1u);
}

TEST_F(Webhook, MetadataAndLinkLocalAddressesAreNeverConnectedTo) {
  for (const char* host :
       {"169.254.169.254", "2852039166", "0xa9fea9fe", "[::ffff:169.254.169.254]", "[fe80::1]",
        "[64:ff9b::a9fe:a9fe]", "0.0.0.0", "[::]", "100.100.100.200", "[fd00:ec2::254]"}) {
    const AttemptResult result =
        sender_.Send({"pager", absl::StrCat("http://", host, "/"), kSecret}, Message(), kNow);
    EXPECT_TRUE(result.denied) << host << ": " << result.error;
    EXPECT_FALSE(result.maybe_sent);
    EXPECT_EQ(Classify(result), AttemptClass::kSlowRetry);
  }
}

bool Denied(const char* text) {
  sockaddr_storage storage{};
  auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
  if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
  } else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
  } else {
    ADD_FAILURE() << text;
  }
  return IsDeniedAddress(*reinterpret_cast<sockaddr*>(&storage));
}

TEST(AddressGuard, DeniesWhatMustNeverBeReachedInAllItsForms) {
  for (const char* text : {"169.254.0.0",
                           "169.254.169.254",
                           "169.254.255.255",
                           "0.0.0.0",
                           "0.1.2.3",
                           "224.0.0.1",
                           "255.255.255.255",
                           "100.100.100.200",
                           "168.63.129.16",
                           "192.0.0.192",
                           "fe80::1",
                           "febf::1",
                           "::",
                           "ff02::1",
                           "::ffff:169.254.1.1",
                           "::169.254.1.1",
                           "64:ff9b::169.254.1.1",
                           "2002:a9fe:0101::",
                           "fd00:ec2::254",
                           "fd20:ce::254",
                           "::ffff:0.0.0.0"})
    EXPECT_TRUE(Denied(text)) << text;
}

TEST(AddressGuard, AllowsReceiversOfTheOperatorsOwnNetwork) {
  for (const char* text : {"127.0.0.1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "8.8.8.8", "169.253.255.255",
                           "169.255.0.0", "::1", "::ffff:127.0.0.1", "fd00::1", "2001:db8::1", "fec0::1"})
    EXPECT_FALSE(Denied(text)) << text;
}

TEST(AddressGuard, DeniesOtherFamilies) {
  sockaddr address{};
  address.sa_family = AF_UNIX;
  EXPECT_TRUE(IsDeniedAddress(address));
}

TEST(Receivers, AreCheckedWithAllProblemsAndWithoutShowingSecrets) {
  EXPECT_TRUE(ValidateReceiver({"pager-1_x", "https://example.org/a?b=c", kSecret}).ok());
  EXPECT_TRUE(ValidateReceiver({"pager", "http://127.0.0.1:8080", ""}).ok());
  for (const char* url :
       {"", "example", "ftp://example.org", "file:///etc/passwd", "https://user:pass@example.org/"})
    EXPECT_FALSE(ValidateReceiver({"pager", url, kSecret}).ok()) << url;
  const std::string message =
      std::string(ValidateReceiver({"Pager!", "https://u:hunter2@example.org/T0KEN", "short"}).message());
  for (const char* part : {"name", "password", "24"})
    EXPECT_TRUE(absl::StrContains(message, part)) << message;
  for (const char* part : {"hunter2", "T0KEN", "short"})
    EXPECT_FALSE(absl::StrContains(message, part)) << message;
}

// --- Sender and outbox together ---

struct Attempt {
  absl::Time time;
  AttemptResult result;
};

// Runs the outbox on simulated time until nothing is pending.
std::vector<Attempt> Drain(WebhookSender& sender, const Receiver& to, std::vector<Delivery> rows) {
  std::vector<Attempt> attempts;
  absl::Time now = kNow;
  while (UntilDue(rows, now) < absl::InfiniteDuration() && attempts.size() < 100) {
    now += UntilDue(rows, now);
    for (const Delivery& due : Due(rows, now)) {
      attempts.push_back({now, sender.Send(to, due, now)});
      for (Delivery& row : rows)
        if (row.id == due.id) row = AfterAttempt(due, attempts.back().result, now);
    }
  }
  return attempts;
}

TEST_F(Webhook, RetryAfterInSecondsIsWaitedOutTwiceAndTheMessageDeliveredOnce) {
  receiver_.Then(Says(Answer(429, "Retry-After: 7\r\n")));
  receiver_.Then(Says(Answer(429, "Retry-After: 7\r\n")));
  const std::vector<Attempt> attempts = Drain(sender_, To(), {Message()});
  ASSERT_EQ(attempts.size(), 3u);
  EXPECT_EQ(attempts[1].time, kNow + absl::Seconds(7));
  EXPECT_EQ(attempts[2].time, kNow + absl::Seconds(14));
}

TEST_F(Webhook, RetryAfterAsADateIsWaitedOut) {
  const std::string date =
      absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", kNow + absl::Seconds(90), absl::UTCTimeZone());
  receiver_.Then(Says(Answer(429, absl::StrCat("retry-after: ", date, "\r\n"))));
  const std::vector<Attempt> attempts = Drain(sender_, To(), {Message()});
  ASSERT_EQ(attempts.size(), 2u);
  EXPECT_EQ(attempts[1].time, kNow + absl::Seconds(90));
}

TEST_F(Webhook, AnAbsurdRetryAfterIsCappedAtAnHour) {
  receiver_.Then(Says(Answer(429, "Retry-After: 999999\r\n")));
  const std::vector<Attempt> attempts = Drain(sender_, To(), {Message()});
  ASSERT_EQ(attempts.size(), 2u);
  EXPECT_EQ(attempts[1].time, kNow + absl::Hours(1));
}

TEST_F(Webhook, AResolveWaitsForItsTrigger) {
  Delivery resolve = Message("msg_2", "resolve");
  resolve.sequence = 2;
  for (int i = 0; i < 3; ++i) receiver_.Then(Says(Answer(500)));
  Drain(sender_, To(), {resolve, Message("msg_1", "trigger")});
  std::vector<std::string> bodies;
  for (const Request& request : receiver_.Requests()) bodies.push_back(request.body());
  EXPECT_EQ(bodies, (std::vector<std::string>{"trigger", "trigger", "trigger", "trigger", "resolve"}));
}

TEST_F(Webhook, AReceiverThatIsGoneIsTriedOnce) {
  receiver_.Then(Says(Answer(410)));
  EXPECT_EQ(Drain(sender_, To(), {Message()}).size(), 1u);
}

}  // namespace
}  // namespace weft
