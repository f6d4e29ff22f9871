#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <climits>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <sys/stat.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace weft {
namespace {

constexpr size_t kMaxFileBytes = 16 << 20;

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

absl::Status Failed(absl::string_view what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", path));
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return Failed("open", path);
  std::string out;
  char buffer[16384];
  for (;;) {
    const ssize_t got = read(fd.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed("read", path);
    if (got == 0) return out;
    out.append(buffer, static_cast<size_t>(got));
    if (out.size() > kMaxFileBytes) {
      return absl::OutOfRangeError(absl::StrCat(path, " is longer than ", kMaxFileBytes, " bytes"));
    }
  }
}

absl::Status WriteFileDurably(const std::string& path, absl::string_view content, unsigned mode) {
  const std::string temporary = path + ".tmp";
  {
    const Fd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
    if (fd.get() < 0) return Failed("create", temporary);
    while (!content.empty()) {
      const ssize_t wrote = write(fd.get(), content.data(), content.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return Failed("write", temporary);
      content.remove_prefix(static_cast<size_t>(wrote));
    }
    if (fsync(fd.get()) != 0) return Failed("sync", temporary);
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) return Failed("rename", temporary);
  return SyncFolder(std::filesystem::path(path).parent_path().string());
}

absl::Status MakeFolders(const std::string& path) {
  std::error_code error;
  const bool made = std::filesystem::create_directories(path, error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot make folder ", path));
  if (made && chmod(path.c_str(), 0700) != 0) return Failed("set the mode of", path);
  return absl::OkStatus();
}

absl::Status SyncFolder(const std::string& path) {
  const std::string folder = path.empty() ? "." : path;
  const Fd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return Failed("open folder", folder);
  if (fsync(fd.get()) != 0) return Failed("sync folder", folder);
  return absl::OkStatus();
}

std::string OwnFolder() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string(".") : self.parent_path().string();
}

uint64_t ResidentBytes() {
  const absl::StatusOr<std::string> statm = ReadFile("/proc/self/statm");
  if (!statm.ok()) return 0;
  const std::vector<std::string> fields = absl::StrSplit(*statm, ' ');
  uint64_t pages = 0;
  if (fields.size() < 2 || !absl::SimpleAtoi(fields[1], &pages)) return 0;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace weft
