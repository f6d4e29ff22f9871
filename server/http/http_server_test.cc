#include "server/http/http_server.h"

#include <dirent.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "server/http/testing.h"

namespace weft {
namespace {

using testing::ClientResponse;
using testing::Fetch;
using testing::RawConnection;

constexpr char kGet[] = "GET /hello HTTP/1.1\r\nHost: t\r\n\r\n";

std::unique_ptr<HttpServer> Serve(HttpServerOptions options = {}) {
  options.address = "127.0.0.1:0";
  Router router;
  router.Get("/hello", [](const HttpRequest&) -> HttpResponse { return {200, "text/plain", "hello", {}}; });
  router.Get("/big", [](const HttpRequest&) -> HttpResponse {
    return {200, "text/plain", std::string(64 << 20, 'x'), {}};
  });
  auto server = HttpServer::Listen(options, std::move(router));
  EXPECT_TRUE(server.ok()) << server.status();
  (*server)->Start();
  return *std::move(server);
}

bool Is(const std::string& response, const std::string& status) {
  return response.rfind("HTTP/1.1 " + status, 0) == 0;
}

TEST(HttpServerTest, AnswersGetWithSecurityHeaders) {
  auto server = Serve();
  const ClientResponse response = Fetch(server->port(), "/hello");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "hello");
  EXPECT_NE(response.headers.at("content-security-policy").find("default-src 'self'"), std::string::npos);
  EXPECT_NE(response.headers.at("content-security-policy").find("frame-ancestors 'none'"), std::string::npos);
  EXPECT_EQ(response.headers.at("x-content-type-options"), "nosniff");
  EXPECT_EQ(response.headers.at("referrer-policy"), "no-referrer");
}

TEST(HttpServerTest, AnswersHeadWithTheLengthAndNoBody) {
  auto server = Serve();
  RawConnection client(server->port());
  client.Send("HEAD /hello HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
  const std::string response = client.ReadToEnd();
  EXPECT_TRUE(Is(response, "200")) << response;
  EXPECT_NE(response.find("Content-Length: 5\r\n"), std::string::npos) << response;
  EXPECT_EQ(response.substr(response.size() - 4), "\r\n\r\n");
}

TEST(HttpServerTest, KeepsAConnectionForFurtherRequests) {
  auto server = Serve();
  RawConnection client(server->port());
  for (int i = 0; i < 3; ++i) {
    client.Send(kGet);
    EXPECT_TRUE(Is(client.ReadUntil("hello"), "200"));
  }
  client.Send(std::string(kGet) + kGet);  // pipelined
  EXPECT_TRUE(Is(client.ReadUntil("hello"), "200"));
}

TEST(HttpServerTest, RefusesOtherMethodsAndBodies) {
  auto server = Serve();
  EXPECT_EQ(Fetch(server->port(), "/hello", {}, "DELETE").status, 405);
  RawConnection post(server->port());
  post.Send("POST /hello HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nhello");
  EXPECT_TRUE(Is(post.ReadToEnd(), "405"));
  RawConnection body(server->port());
  body.Send("GET /hello HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nhello");
  EXPECT_TRUE(Is(body.ReadToEnd(), "413"));
  RawConnection chunked(server->port());
  chunked.Send("GET /hello HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
  EXPECT_TRUE(Is(chunked.ReadToEnd(), "413"));
}

TEST(HttpServerTest, RefusesAHeaderAboveSixteenKibibytes) {
  auto server = Serve();
  EXPECT_EQ(Fetch(server->port(), "/hello", {"X-Padding: " + std::string(15'000, 'x')}).status, 200);
  RawConnection client(server->port());
  client.Send("GET /hello HTTP/1.1\r\nX-Padding: " + std::string(17'000, 'x') + "\r\n\r\n");
  EXPECT_TRUE(Is(client.ReadToEnd(), "431"));
}

TEST(HttpServerTest, CutsOffAClientThatTricklesItsRequest) {
  auto server = Serve({.idle_timeout = absl::Milliseconds(300)});
  RawConnection client(server->port());
  std::atomic<bool> stop{false};
  std::thread trickle([&] {
    const std::string slow = "GET /hello HTTP/1.1\r\nX: " + std::string(100'000, 'x');
    for (size_t i = 0; i < slow.size() && !stop && client.Send(slow.substr(i, 1)); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the pace, not a wait
    }
  });
  EXPECT_EQ(client.ReadToEnd(), "");
  EXPECT_TRUE(client.closed_by_peer());
  stop = true;
  trickle.join();
}

TEST(HttpServerTest, CutsOffAnIdleClientAndOneThatDoesNotTakeItsAnswer) {
  auto server = Serve({.idle_timeout = absl::Milliseconds(300)});
  RawConnection idle(server->port());
  EXPECT_EQ(idle.ReadToEnd(), "");
  EXPECT_TRUE(idle.closed_by_peer());
  RawConnection deaf(server->port());
  deaf.Send("GET /big HTTP/1.1\r\nHost: t\r\n\r\n");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while ((server->stats().requests < 1 || server->stats().open_connections > 0) &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(server->stats().requests, 1u);
  EXPECT_EQ(server->stats().open_connections, 0u);
}

TEST(HttpServerTest, TellsConnectionsBeyondTheLimitAndServesAgainWhenThereIsRoom) {
  auto server = Serve({.max_connections = 4});
  std::vector<std::unique_ptr<RawConnection>> busy;  // their answers are not taken
  for (int i = 0; i < 4; ++i) {
    busy.push_back(std::make_unique<RawConnection>(server->port()));
    busy.back()->Send("GET /big HTTP/1.1\r\nHost: t\r\n\r\n");
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (server->stats().requests < 4 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  RawConnection refused(server->port());
  EXPECT_TRUE(Is(refused.ReadToEnd(), "503"));
  EXPECT_EQ(server->stats().refused_connections, 1u);
  EXPECT_EQ(server->stats().evicted_connections, 0u);
  busy.clear();
  long status = 0;
  while (status != 200 && std::chrono::steady_clock::now() < deadline) {
    status = Fetch(server->port(), "/hello").status;
  }
  EXPECT_EQ(status, 200);
}

TEST(HttpServerTest, ConnectionsThatAskNothingMakeRoomForARequest) {
  auto server = Serve({.max_connections = 32});
  std::vector<std::unique_ptr<RawConnection>> idle;
  for (int i = 0; i < 200; ++i) {
    idle.push_back(std::make_unique<RawConnection>(server->port()));
    if (i % 3 == 0) idle.back()->Send("GET /hello HT");
  }
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Fetch(server->port(), "/hello").status, 200);
  EXPECT_TRUE(idle.front()->ReadToEnd().empty()) << "the oldest goes first";
  EXPECT_GE(server->stats().evicted_connections, 200u - 32);
}

TEST(HttpServerTest, SurvivesRandomBytes) {
  auto server = Serve({.idle_timeout = absl::Milliseconds(500)});
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 200; ++i) {
    std::string bytes = i % 2 == 0 ? "" : kGet;
    if (i % 2 == 1) bytes[random() % bytes.size()] = static_cast<char>(random());
    for (size_t length = i % 2 == 0 ? random() % 2000 : 0; length > 0; --length) {
      bytes += static_cast<char>(random());
    }
    RawConnection client(server->port());
    client.Send(bytes);
    client.Send("\r\n\r\n");
  }
  EXPECT_EQ(Fetch(server->port(), "/hello").status, 200);
}

TEST(HttpServerTest, ANonHttpLineIsAnsweredWith400) {
  auto server = Serve();
  RawConnection client(server->port());
  client.Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  EXPECT_TRUE(Is(client.ReadToEnd(), "400"));
}

TEST(HttpServerTest, NamesItsThreads) {
  auto server = Serve();
  EXPECT_EQ(Fetch(server->port(), "/hello").status, 200);
  std::vector<std::string> names;
  DIR* tasks = opendir("/proc/self/task");
  for (dirent* entry; (entry = readdir(tasks)) != nullptr;) {
    std::ifstream comm("/proc/self/task/" + std::string(entry->d_name) + "/comm");
    std::string name;
    if (std::getline(comm, name) && name.rfind("weft-http-", 0) == 0) names.push_back(name);
  }
  closedir(tasks);
  EXPECT_LE(names.size(), 2u);
  EXPECT_FALSE(names.empty());
}

TEST(HttpServerTest, StopClosesThePortAndOpenConnections) {
  auto server = Serve();
  RawConnection client(server->port());
  client.Send(kGet);
  client.ReadUntil("hello");
  server->Stop();
  EXPECT_EQ(client.ReadToEnd(), "");
  EXPECT_TRUE(client.closed_by_peer());
  EXPECT_EQ(Fetch(server->port(), "/hello").status, 0);
  server->Stop();
}

TEST(HttpServerTest, MayBeDestroyedWithoutEverBeingStarted) {
  EXPECT_TRUE(HttpServer::Listen({.address = "127.0.0.1:0"}, Router()).ok());
}

TEST(HttpServerTest, SaysWhyItCannotListen) {
  for (const char* address : {"", "7480", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "::1:80", "a@b:80"}) {
    const auto server = HttpServer::Listen({.address = address}, Router());
    EXPECT_FALSE(server.ok()) << address;
  }
  auto first = Serve();
  const auto second = HttpServer::Listen({.address = first->address()}, Router());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(second.status().message().find(first->address()), absl::string_view::npos);
}

TEST(HttpServerTest, ListensOnIpv6) {
  const auto server = HttpServer::Listen({.address = "[::1]:0"}, Router());
  if (!server.ok()) GTEST_SKIP() << "no IPv6 here: " << server.status();
  EXPECT_EQ((*server)->address().rfind("[::1]:", 0), 0u);
}

}  // namespace
}  // namespace weft
