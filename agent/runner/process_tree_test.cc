#include "agent/runner/process_tree.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace weft {
namespace {

// A child in a group of its own that runs a shell command.
pid_t StartShell(const std::string& command) {
  const pid_t pid = fork();
  if (pid == 0) {
    setpgid(0, 0);
    execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  setpgid(pid, pid);
  return pid;
}

void Kill(pid_t pid) {
  kill(-pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

// A grandchild in a group of its own that runs `program` for a minute; its number.
pid_t StartGrandchild(const std::string& program, FILE** shell) {
  *shell = popen(("setsid " + program + " 60 & echo $!; wait").c_str(), "r");
  int pid = 0;
  EXPECT_EQ(fscanf(*shell, "%d", &pid), 1);
  return pid;
}

// Whether KinshipOf comes to be `expected`: until its exec is done a process bears another name.
bool Becomes(pid_t pid, Kinship expected) {
  for (int i = 0; i < 10000 && KinshipOf(pid) != expected; ++i) usleep(1000);
  return KinshipOf(pid) == expected;
}

TEST(KinshipTest, AGroupThatAChildOfOursLeadsIsOurs) {
  const pid_t child = StartShell("sleep 60 & wait");
  EXPECT_EQ(KinshipOf(child), Kinship::kOwn);
  Kill(child);
  EXPECT_EQ(KinshipOf(child), Kinship::kGone);
}

TEST(KinshipTest, WhoeverElseIsThereIsForeignButForProbesOfOtherAgents) {
  EXPECT_EQ(KinshipOf(getpid()), Kinship::kForeign) << "this test itself was started by somebody else";
  EXPECT_EQ(KinshipOf(0x3fffffff), Kinship::kGone);

  std::string folder = std::filesystem::temp_directory_path() / "weft-kin-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  for (const auto& [name, kinship] :
       {std::pair("training", Kinship::kForeign), std::pair("weft-probe-nccl", Kinship::kOwn)}) {
    const std::string program = folder + "/" + name;
    std::filesystem::copy_file("/bin/sleep", program);
    FILE* shell = nullptr;
    const pid_t pid = StartGrandchild(program, &shell);
    EXPECT_TRUE(Becomes(pid, kinship)) << name;
    kill(pid, SIGKILL);
    pclose(shell);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weft
