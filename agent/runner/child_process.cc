#include "agent/runner/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace weft {
namespace {

constexpr auto kExitPollInterval = std::chrono::milliseconds(5);
constexpr absl::Duration kDestructorPatience = absl::Seconds(2);

struct Pipe {
  OwnedFd read;
  OwnedFd write;
};

// Numbers from 10 on, so that arranging 0 to 3 in the child cannot overwrite one that is still needed.
absl::StatusOr<OwnedFd> Raise(OwnedFd fd) {
  const int raised = fcntl(fd.get(), F_DUPFD_CLOEXEC, 10);
  if (raised < 0) return absl::ErrnoToStatus(errno, "cannot make a pipe for a probe");
  return OwnedFd(raised);
}

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot make a pipe for a probe");
  OwnedFd read(fds[0]), write(fds[1]);
  absl::StatusOr<OwnedFd> high_read = Raise(std::move(read));
  if (!high_read.ok()) return high_read.status();
  absl::StatusOr<OwnedFd> high_write = Raise(std::move(write));
  if (!high_write.ok()) return high_write.status();
  return Pipe{std::move(*high_read), std::move(*high_write)};
}

absl::Status SetNonBlocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "cannot make a pipe non-blocking");
}

// A pipe that already holds `input`. Filled before the child exists: no writer can block or meet SIGPIPE
// later.
absl::StatusOr<Pipe> InputPipe(const std::string& input) {
  absl::StatusOr<Pipe> pipe = MakePipe();
  if (!pipe.ok()) return pipe.status();
  if (absl::Status s = SetNonBlocking(pipe->write.get()); !s.ok()) return s;
  const ssize_t wrote = write(pipe->write.get(), input.data(), input.size());
  if (wrote != static_cast<ssize_t>(input.size()))
    return absl::ResourceExhaustedError(
        absl::StrCat("a request of ", input.size(), " bytes does not fit into a pipe"));
  return pipe;
}

// The C structures of posix_spawn with their destroy calls.
class SpawnSetup {
 public:
  SpawnSetup() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;

  void SetDescriptors(int input, int output, int reply) {
    posix_spawn_file_actions_adddup2(&actions_, input, 0);
    posix_spawn_file_actions_adddup2(&actions_, output, 1);
    posix_spawn_file_actions_adddup2(&actions_, output, 2);
    posix_spawn_file_actions_adddup2(&actions_, reply, 3);
    posix_spawn_file_actions_addclosefrom_np(&actions_, 4);
    posix_spawn_file_actions_addchdir_np(&actions_, "/");
  }
  // Own process group, no signal blocked, none ignored.
  void SetGroupAndSignals() {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_,
                             POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  absl::StatusOr<pid_t> Spawn(const ChildProcess::Options& options) const;

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

absl::StatusOr<pid_t> SpawnSetup::Spawn(const ChildProcess::Options& options) const {
  std::vector<char*> environment;
  for (const std::string& entry : options.environment)
    environment.push_back(const_cast<char*>(entry.c_str()));
  environment.push_back(nullptr);
  char* arguments[] = {const_cast<char*>(options.executable.c_str()), nullptr};
  pid_t pid = 0;
  const int error =
      posix_spawn(&pid, options.executable.c_str(), &actions_, &attributes_, arguments, environment.data());
  if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat("cannot start probe ", options.executable));
  return pid;
}

// -1 on kernels before 5.3.
int OpenPidfd(pid_t pid) {
#ifdef SYS_pidfd_open
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
#else
  static_cast<void>(pid);
  return -1;
#endif
}

}  // namespace

OwnedFd& OwnedFd::operator=(OwnedFd&& other) noexcept {
  if (this != &other) {
    Reset();
    fd_ = other.Release();
  }
  return *this;
}

void OwnedFd::Reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

int OwnedFd::Release() { return std::exchange(fd_, -1); }

absl::StatusOr<ChildProcess> ChildProcess::Start(const Options& options, Reaper& reaper) {
  absl::StatusOr<Pipe> input = InputPipe(options.input);
  if (!input.ok()) return input.status();
  absl::StatusOr<Pipe> output = MakePipe();
  if (!output.ok()) return output.status();
  absl::StatusOr<Pipe> reply = MakePipe();
  if (!reply.ok()) return reply.status();
  if (absl::Status s = SetNonBlocking(output->read.get()); !s.ok()) return s;
  if (absl::Status s = SetNonBlocking(reply->read.get()); !s.ok()) return s;

  SpawnSetup setup;
  setup.SetDescriptors(input->read.get(), output->write.get(), reply->write.get());
  setup.SetGroupAndSignals();
  absl::StatusOr<pid_t> pid = reaper.Spawn([&] { return setup.Spawn(options); });
  if (!pid.ok()) return pid.status();

  ChildProcess child(reaper);
  child.pid_ = *pid;
  if (options.keep_input) child.input_ = std::move(input->write);
  child.reply_ = std::move(reply->read);
  child.output_ = std::move(output->read);
  child.pidfd_ = OwnedFd(OpenPidfd(*pid));
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : reaper_(other.reaper_),
      pid_(std::exchange(other.pid_, 0)),
      reaped_(other.reaped_),
      wait_status_(other.wait_status_),
      input_(std::move(other.input_)),
      reply_(std::move(other.reply_)),
      output_(std::move(other.output_)),
      pidfd_(std::move(other.pidfd_)) {}

ChildProcess::~ChildProcess() { KillAndReap(kDestructorPatience); }

bool ChildProcess::HasExited() const {
  if (pid_ == 0 || reaped_) return true;
  siginfo_t info = {};
  const int rc = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  return rc == 0 && info.si_pid == pid_;
}

bool ChildProcess::WaitForExit(absl::Duration patience) const {
  const auto end = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(patience);
  while (!HasExited()) {
    const auto left = end - std::chrono::steady_clock::now();
    if (left <= left.zero()) return false;
    if (!pidfd_.valid()) {
      std::this_thread::sleep_for(kExitPollInterval);
      continue;
    }
    pollfd wait = {pidfd_.get(), POLLIN, 0};
    poll(&wait, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
  }
  return true;
}

void ChildProcess::SignalGroup(int signal) const {
  if (pid_ > 0 && !reaped_) kill(-pid_, signal);
}

bool ChildProcess::KillAndReap(absl::Duration patience) {
  if (pid_ == 0 || reaped_) return true;
  SignalGroup(SIGKILL);
  if (!WaitForExit(patience)) return false;
  // Once more: a member may have forked between the first signal's walk over the group and its own death.
  SignalGroup(SIGKILL);
  const std::optional<int> status = reaper_->Reap(pid_);
  reaped_ = status.has_value();
  wait_status_ = status.value_or(0);
  return reaped_;
}

std::string ChildProcess::DescribeExit() const {
  if (!reaped_) return "still there";
  if (WIFEXITED(wait_status_)) return absl::StrCat("exit code ", WEXITSTATUS(wait_status_));
  const int signal = WTERMSIG(wait_status_);
  return absl::StrCat("signal ", signal, " (", strsignal(signal), ")");
}

}  // namespace weft
