#include "agent/probes/nccl/log_capture.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "absl/strings/str_split.h"

namespace weft::nccl {
namespace {

constexpr size_t kMaxBytes = 8 << 20;
constexpr int kPipeBytes = 1 << 20;

// For people only, so what does not fit at once is dropped: nothing here may wait for the agent.
void PassOn(int fd, const char* data, size_t size) {
  while (size > 0) {
    pollfd room = {fd, POLLOUT, 0};
    if (poll(&room, 1, 0) != 1 || (room.revents & POLLOUT) == 0) return;
    const ssize_t wrote = write(fd, data, std::min<size_t>(size, PIPE_BUF));
    if (wrote <= 0) return;
    data += wrote;
    size -= static_cast<size_t>(wrote);
  }
}

}  // namespace

LogCapture::~LogCapture() {
  if (read_fd_ < 0) return;
  std::fflush(stdout);
  dup2(old_stdout_, STDOUT_FILENO);
  close(read_fd_);
  close(old_stdout_);
}

absl::Status LogCapture::Start() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot make a pipe for NCCL's log");
  fcntl(fds[0], F_SETFL, O_NONBLOCK);
  // More room, where it is allowed: a burst must not wait for this process to be scheduled.
  fcntl(fds[1], F_SETPIPE_SZ, kPipeBytes);
  old_stdout_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
  dup2(fds[1], STDOUT_FILENO);
  close(fds[1]);
  setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  read_fd_ = fds[0];
  return absl::OkStatus();
}

void LogCapture::Drain() {
  std::array<char, 64 << 10> buffer;
  while (read_fd_ >= 0) {
    const ssize_t got = read(read_fd_, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    const auto size = static_cast<size_t>(got);
    PassOn(old_stdout_, buffer.data(), size);
    const size_t room = kMaxBytes - bytes_.size();
    bytes_.append(buffer.data(), std::min(room, size));
    lost_ += size - std::min(room, size);
  }
}

std::vector<std::string> LogCapture::Lines() const { return absl::StrSplit(bytes_, '\n', absl::SkipEmpty()); }

LogCapture::Excerpt LogCapture::Cut(size_t max_bytes) const {
  if (bytes_.size() <= max_bytes) return {bytes_, lost_};
  const size_t head = max_bytes / 3 * 2;
  const size_t tail = max_bytes - head;
  return {bytes_.substr(0, head) + bytes_.substr(bytes_.size() - tail), bytes_.size() - max_bytes + lost_};
}

}  // namespace weft::nccl
