#include "agent/runner/process_tree.h"

#include <dirent.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace weft {
namespace {

struct CloseFolder {
  void operator()(DIR* dir) const { closedir(dir); }
};

// Names in `path` that are numbers: processes of /proc, threads of /proc/<pid>/task.
std::vector<pid_t> NumbersIn(const char* path) {
  std::vector<pid_t> numbers;
  const std::unique_ptr<DIR, CloseFolder> dir(opendir(path));
  if (!dir) return numbers;
  while (const dirent* entry = readdir(dir.get())) {
    pid_t number = 0;
    if (absl::SimpleAtoi(entry->d_name, &number)) numbers.push_back(number);
  }
  return numbers;
}

// False where the kernel was built without CONFIG_PROC_CHILDREN.
bool KernelListsChildren() {
  static const bool yes = access("/proc/thread-self/children", R_OK) == 0;
  return yes;
}

std::vector<pid_t> ChildrenByThread() {
  std::vector<pid_t> children;
  for (const pid_t thread : NumbersIn("/proc/self/task")) {
    std::ifstream in(absl::StrCat("/proc/self/task/", thread, "/children"));
    for (pid_t pid; in >> pid;) children.push_back(pid);
  }
  return children;
}

struct Stat {
  std::string name;  // at most 15 characters
  pid_t parent = 0;  // 0: the process is gone
};

// The name in the second field may hold anything, so the fields are counted from the last parenthesis.
Stat StatOf(pid_t pid) {
  std::ifstream in(absl::StrCat("/proc/", pid, "/stat"));
  std::string line;
  std::getline(in, line, '\0');
  const size_t name_begin = line.find('(');
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos || name_begin > name_end || name_end + 4 > line.size()) return {};
  return {line.substr(name_begin + 1, name_end - name_begin - 1),
          static_cast<pid_t>(std::strtol(line.c_str() + name_end + 4, nullptr, 10))};
}

std::vector<pid_t> ChildrenByScan() {
  std::vector<pid_t> children;
  const pid_t self = getpid();
  for (const pid_t pid : NumbersIn("/proc"))
    if (StatOf(pid).parent == self) children.push_back(pid);
  return children;
}

}  // namespace

Kinship KinshipOf(pid_t pid) {
  const pid_t group = getpgid(pid);
  if (group <= 0) return Kinship::kGone;
  // The leader stays a child of ours until it is reaped, even when it has exited before its descendants.
  const Stat leader = StatOf(group);
  const bool is_own = leader.parent == getpid() || absl::StartsWith(leader.name, "weft-probe-");
  return is_own ? Kinship::kOwn : Kinship::kForeign;
}

std::vector<pid_t> OwnChildren() { return KernelListsChildren() ? ChildrenByThread() : ChildrenByScan(); }

}  // namespace weft
