// The two programs that really read this server: a Prometheus and a browser. Skipped, and said so, where they
// are not installed.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "server/http/testing.h"

extern char** environ;

namespace weft {
namespace {

using testing::Fetch;
using ::testing::HasSubstr;
using testing::IsInstalled;
using ::testing::Not;
using testing::ServedFleet;
using testing::TemporaryFolder;

// Killed and reaped at the end.
class Child {
 public:
  explicit Child(std::vector<std::string> arguments) {
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    if (posix_spawnp(&pid_, argv[0], nullptr, nullptr, argv.data(), environ) != 0) pid_ = 0;
  }
  ~Child() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

 private:
  pid_t pid_ = 0;
};

uint16_t FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  bind(fd, reinterpret_cast<sockaddr*>(&address), length);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  close(fd);
  return ntohs(address.sin_port);
}

// Another process is waited for; it is asked a few times a second.
bool Eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(90);
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  return false;
}

std::string PrometheusConfig(uint16_t weft_port) {
  return "global:\n  scrape_interval: 1s\n"
         "scrape_configs:\n- job_name: weft\n  http_sd_configs:\n"
         "  - url: http://127.0.0.1:" +
         std::to_string(weft_port) + "/sd/prometheus\n    refresh_interval: 1s\n";
}

TEST(PrometheusTest, FindsTheServerByDiscoveryAndDropsWithdrawnSeries) {
  if (!IsInstalled("prometheus")) GTEST_SKIP() << "prometheus is not installed";
  ServedFleet fleet;
  TemporaryFolder folder;
  std::ofstream(folder.path() + "/prometheus.yml") << PrometheusConfig(fleet.port());
  const uint16_t port = FreePort();
  Child prometheus({"prometheus", "--config.file=" + folder.path() + "/prometheus.yml",
                    "--storage.tsdb.path=" + folder.path() + "/data", "--log.level=error",
                    "--web.listen-address=127.0.0.1:" + std::to_string(port)});
  const auto query = [&](const std::string& expression) {
    return Fetch(port, "/api/v1/query?query=" + expression).body;
  };
  const std::string ratio = "weft_probe_bandwidth_ratio%7Bnode%3D%22gpu-b%22%7D";
  EXPECT_TRUE(Eventually([&] { return query(ratio).find("\"0.5\"]") != std::string::npos; })) << query(ratio);
  EXPECT_THAT(query("up"), HasSubstr("\"1\"]"));
  EXPECT_THAT(query("weft_node_info"), HasSubstr("\"rack\":\"r1\""));

  fleet.view().SetLevels({});
  EXPECT_TRUE(Eventually([&] { return query(ratio).find("\"result\":[]") != std::string::npos; }))
      << query(ratio);
}

TEST(BrowserTest, ShowsNodesAndFindingsAndANameOfMarkupAsText) {
  if (!IsInstalled("chromium")) GTEST_SKIP() << "chromium is not installed";
  ServedFleet fleet;
  TemporaryFolder folder;
  std::string dom;
  testing::RunProgram(
      {"timeout", "90", "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
       "--no-proxy-server", "--user-data-dir=" + folder.path(), "--virtual-time-budget=5000", "--dump-dom",
       "http://127.0.0.1:" + std::to_string(fleet.port()) + "/"},
      &dom);
  EXPECT_THAT(dom, HasSubstr("&lt;img src=x onerror=alert(1)&gt;"));
  EXPECT_THAT(dom, Not(HasSubstr("<img")));
  EXPECT_THAT(dom, HasSubstr("✖ degraded"));
  EXPECT_THAT(dom, HasSubstr("50 MB/s"));
  EXPECT_THAT(dom, HasSubstr("50 %"));
  EXPECT_THAT(dom, HasSubstr("gpu-b writes at half of what is expected"));
}

}  // namespace
}  // namespace weft
