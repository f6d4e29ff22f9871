// One probe process and the pipes to it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/runner/reaper.h"

namespace weft {

// A descriptor that closes itself. One thread.
class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(other.Release()) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept;
  ~OwnedFd() { Reset(); }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void Reset();
  int Release();

 private:
  int fd_ = -1;
};

// One thread, which must live as long as the child: a probe asks the kernel to kill it when the thread that
// started it ends (PR_SET_PDEATHSIG). The destructor kills and reaps what is left.
class ChildProcess {
 public:
  struct Options {
    std::string executable;                // absolute path
    std::vector<std::string> environment;  // all of it, as NAME=value
    std::string input;                     // what the child reads on descriptor 0, then end of file
    bool keep_input = false;               // no end of file: more is written to input_fd()
  };

  // Starts the child in a process group of its own, in the folder "/", with default signals. Descriptors: 0
  // gives `input`, 1 and 2 go to output_fd(), 3 to reply_fd(); no other descriptor is open in it.
  // kResourceExhausted when `input` does not fit into a pipe; otherwise an errno's code and the path.
  static absl::StatusOr<ChildProcess> Start(const Options& options, Reaper& reaper);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  // Non-blocking read ends; -1 once closed.
  int reply_fd() const { return reply_.get(); }
  int output_fd() const { return output_.get(); }
  // Non-blocking write end of descriptor 0; -1 unless kept. Writing raises SIGPIPE once the child is gone.
  int input_fd() const { return input_.get(); }
  // Readable when the child has exited; -1 where the kernel has no pidfd (then HasExited must be polled).
  int exit_fd() const { return pidfd_.get(); }
  void CloseReply() { reply_.Reset(); }
  void CloseOutput() { output_.Reset(); }

  // True once the child has exited. It is not reaped yet: until then its number, and that of its process
  // group, cannot be used anew, so that no signal can reach a stranger.
  bool HasExited() const;
  // Waits up to `patience` for HasExited.
  bool WaitForExit(absl::Duration patience) const;
  // Sends a signal to the whole process group.
  void SignalGroup(int signal) const;
  // SIGKILL to the whole group, then reaps the child. False when it does not die within `patience`; call
  // again later.
  bool KillAndReap(absl::Duration patience);
  // "exit code 3", "signal 9 (Killed)"; only once reaped.
  std::string DescribeExit() const;
  bool exited_cleanly() const { return reaped_ && wait_status_ == 0; }

 private:
  explicit ChildProcess(Reaper& reaper) : reaper_(&reaper) {}

  Reaper* reaper_;
  pid_t pid_ = 0;  // 0 when moved from or never started
  bool reaped_ = false;
  int wait_status_ = 0;
  OwnedFd input_;
  OwnedFd reply_;
  OwnedFd output_;
  OwnedFd pidfd_;
};

}  // namespace weft
