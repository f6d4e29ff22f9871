// The real weft-agent binary: how it starts, refuses and stops.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

extern char** environ;

namespace weft {
namespace {

using ::testing::HasSubstr;

class AgentProcess {
 public:
  AgentProcess(const std::vector<std::string>& arguments, const std::string& log) : log_(log) {
    const char* folder = getenv("WEFT_BIN_DIR");
    std::vector<std::string> all = {
        absl::StrCat(folder == nullptr ? OwnFolder() + "/../bin" : folder, "/weft-agent")};
    all.insert(all.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& argument : all) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (const int fd : {1, 2})
      posix_spawn_file_actions_addopen(&actions, fd, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    EXPECT_EQ(posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~AgentProcess() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  void Signal(int number) const { kill(pid_, number); }
  // Exit status; 128 + signal when killed by one.
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string Log() const { return ReadFile(log_).value_or(""); }
  void AwaitLog(const std::string& text) const {
    const absl::Duration deadline = Clock::Real().Monotonic() + absl::Seconds(30);
    while (Log().find(text) == std::string::npos && Clock::Real().Monotonic() < deadline)
      std::this_thread::yield();
    EXPECT_THAT(Log(), HasSubstr(text));
  }

 private:
  const std::string log_;
  pid_t pid_ = 0;
};

class AgentMainTest : public ::testing::Test {
 protected:
  AgentMainTest() {
    std::string pattern = ::testing::TempDir() + "/agent_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~AgentMainTest() override { std::filesystem::remove_all(folder_); }
  AgentProcess Run(std::vector<std::string> arguments) {
    return AgentProcess(std::move(arguments), absl::StrCat(folder_, "/log", ++logs_));
  }
  std::vector<std::string> Arguments() const {
    return {"--server", "127.0.0.1:1", "--insecure", "--state-dir", folder_ + "/state"};
  }
  std::string folder_;
  int logs_ = 0;
};

TEST_F(AgentMainTest, WithoutAServerItRunsOnAndStopsCleanlyOnBothSignals) {
  for (const int number : {SIGTERM, SIGINT}) {
    AgentProcess agent = Run(Arguments());
    agent.AwaitLog("no stream to the server");
    const absl::Duration before = Clock::Real().Monotonic();
    agent.Signal(number);
    EXPECT_EQ(agent.Wait(), 0);
    EXPECT_LT(Clock::Real().Monotonic() - before, absl::Seconds(5));
  }
}

TEST_F(AgentMainTest, ASecondAgentOnTheSameStateIsRefused) {
  AgentProcess first = Run(Arguments());
  first.AwaitLog("node ");
  AgentProcess second = Run(Arguments());
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_THAT(second.Log(), HasSubstr("in use by another agent"));
}

TEST_F(AgentMainTest, AClonedDiskIsRefusedAndToldWhatToDo) {
  std::filesystem::create_directories(folder_ + "/state");
  std::ofstream(folder_ + "/state/node_id")
      << "node_id=8f14e45f-ceea-467f-a9e6-000000000000\ndmi_product_uuid=elsewhere\nmachine_id=elsewhere\n";
  AgentProcess agent = Run(Arguments());
  agent.AwaitLog("weft-agent");
  const bool known_here = !ReadFile("/etc/machine-id").value_or("").empty();
  if (!known_here) GTEST_SKIP() << "this machine has no fingerprint";
  EXPECT_EQ(agent.Wait(), 1);
  EXPECT_THAT(agent.Log(), HasSubstr("was made on another machine"));
}

TEST_F(AgentMainTest, ABadConfigurationIsRefusedBeforeAnythingStarts) {
  AgentProcess agent = Run({"--server", "nowhere", "--check-config"});
  EXPECT_EQ(agent.Wait(), 2);
  EXPECT_THAT(agent.Log(), HasSubstr("state_dir is missing"));
  AgentProcess good = Run({"--server", "a:1", "--insecure", "--state-dir", "/x", "--check-config"});
  EXPECT_EQ(good.Wait(), 0);
}

TEST_F(AgentMainTest, MissingCertificatesAreNamed) {
  AgentProcess agent = Run({"--server", "a:1", "--state-dir", folder_ + "/state", "--tls-cert", "/none/c",
                            "--tls-key", "/none/k", "--tls-ca", "/none/ca"});
  EXPECT_EQ(agent.Wait(), 1);
  EXPECT_THAT(agent.Log(), HasSubstr("/none/c"));
}

}  // namespace
}  // namespace weft
