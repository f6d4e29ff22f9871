#include "agent/runner/runner.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/runner/child_process.h"
#include "agent/runner/output_tail.h"
#include "agent/runner/probe_spec.h"
#include "agent/runner/reply_reader.h"
#include "base/framing.h"

namespace weft {
namespace {

constexpr size_t kOutputBytes = 16 << 10;
constexpr absl::Duration kKillPatience = absl::Seconds(2);
// Without a pidfd the child's exit is polled; with one this only bounds how long a lost wake-up can last.
constexpr absl::Duration kPollInterval = absl::Milliseconds(20);
constexpr absl::Duration kLongPoll = absl::Seconds(1);
// Bytes read in one go; a probe that floods must not keep the loop from its deadline.
constexpr size_t kReadBytes = 64 << 10;
constexpr int kReadsPerTurn = 16;

v1::Result MakeResult(v1::Outcome outcome, std::string detail) {
  v1::Result result;
  result.set_outcome(outcome);
  result.set_detail(std::move(detail));
  return result;
}

enum class End { kExited, kReplyClosed, kDeadline, kCancelled, kBroken };

// The conversation with one child from its start to its end.
class Supervision {
 public:
  struct Options {
    absl::Duration deadline;  // on the clock's monotonic time
    absl::Duration exit_patience;
  };
  Supervision(ChildProcess& child, Clock& clock, Options options, const CancelToken& cancel,
              const std::function<void(std::string)>& on_rendezvous)
      : child_(child), clock_(clock), options_(options), cancel_(cancel), replies_(on_rendezvous) {}

  // Until something ends it; the child may still run.
  End Watch();
  // Takes what the pipes still hold, once the child is gone. Does not wait for their end: a descendant in a
  // sick driver may hold them open for ever.
  void DrainAfterExit();
  v1::Result Judge(End end);
  std::string TakeOutput() { return output_.Take(); }

 private:
  // What ended the conversation, if anything has.
  std::optional<End> CheckEnd();
  void WaitForEvents() const;
  bool ReadOutput();
  // False at the end of the stream, or when the probe broke its protocol.
  bool ReadReplies();
  v1::Result JudgeMissingResult(End end) const;

  ChildProcess& child_;
  Clock& clock_;
  Options options_;
  const CancelToken& cancel_;
  ReplyReader replies_;
  OutputTail output_{kOutputBytes};
  absl::Status protocol_;
};

// Bytes available without blocking: -1 nothing now, 0 end of file.
ssize_t ReadSome(int fd, std::array<char, kReadBytes>& buffer) {
  ssize_t got;
  do {
    got = read(fd, buffer.data(), buffer.size());
  } while (got < 0 && errno == EINTR);
  return got;
}

bool Supervision::ReadOutput() {
  thread_local std::array<char, kReadBytes> buffer;
  for (int i = 0; i < kReadsPerTurn && child_.output_fd() >= 0; ++i) {
    const ssize_t got = ReadSome(child_.output_fd(), buffer);
    if (got < 0) return true;
    if (got == 0) child_.CloseOutput();
    output_.Append({buffer.data(), static_cast<size_t>(got)});
  }
  return child_.output_fd() >= 0;
}

bool Supervision::ReadReplies() {
  thread_local std::array<char, kReadBytes> buffer;
  for (int i = 0; i < kReadsPerTurn && child_.reply_fd() >= 0; ++i) {
    const ssize_t got = ReadSome(child_.reply_fd(), buffer);
    if (got < 0) return true;
    if (got == 0) child_.CloseReply();
    protocol_ = replies_.Append({buffer.data(), static_cast<size_t>(got)});
    if (!protocol_.ok()) return false;
  }
  return child_.reply_fd() >= 0;
}

void Supervision::WaitForEvents() const {
  std::array<pollfd, 4> fds = {{{child_.reply_fd(), POLLIN, 0},
                                {child_.output_fd(), POLLIN, 0},
                                {child_.exit_fd(), POLLIN, 0},
                                {cancel_.fd(), POLLIN, 0}}};
  const bool blind = child_.exit_fd() < 0 || cancel_.fd() < 0;
  absl::Duration wait = std::min(options_.deadline - clock_.Monotonic(), blind ? kPollInterval : kLongPoll);
  wait = std::max(absl::Ceil(wait, absl::Milliseconds(1)), absl::ZeroDuration());
  poll(fds.data(), fds.size(), static_cast<int>(absl::ToInt64Milliseconds(wait)));
}

std::optional<End> Supervision::CheckEnd() {
  const bool exited = child_.HasExited();
  ReadOutput();
  const bool open = child_.reply_fd() >= 0 && ReadReplies();
  if (!protocol_.ok()) return End::kBroken;
  if (exited) return End::kExited;
  if (cancel_.cancelled()) return End::kCancelled;
  if (clock_.Monotonic() >= options_.deadline) return End::kDeadline;
  if (!open && !replies_.result()) return End::kReplyClosed;
  // Once it has answered it has only a short time to go, whatever the deadline.
  if (replies_.result())
    options_.deadline =
        std::min(options_.deadline,
                 clock_.Monotonic() + std::exchange(options_.exit_patience, absl::InfiniteDuration()));
  return std::nullopt;
}

End Supervision::Watch() {
  while (true) {
    if (const std::optional<End> end = CheckEnd()) return *end;
    WaitForEvents();
  }
}

void Supervision::DrainAfterExit() {
  // A pipe holds 64 KiB unless its owner enlarged it; twice the turns is ample, and no flood is endless.
  ReadOutput();
  if (protocol_.ok() && child_.reply_fd() >= 0) ReadReplies();
}

v1::Result Supervision::JudgeMissingResult(End end) const {
  const std::string where = replies_.phase().empty() ? std::string("before its first phase")
                                                     : absl::StrCat("in phase ", replies_.phase());
  switch (end) {
    case End::kDeadline:
      return MakeResult(v1::OUTCOME_TIMED_OUT,
                        absl::StrCat("the probe gave no result in time; killed ", where));
    case End::kCancelled:
      return MakeResult(v1::OUTCOME_FAILED, absl::StrCat("cancelled ", where));
    case End::kReplyClosed:
      return MakeResult(v1::OUTCOME_FAILED,
                        absl::StrCat("the probe closed descriptor 3 without a result ", where));
    case End::kExited:
    case End::kBroken:
      break;
  }
  return MakeResult(v1::OUTCOME_FAILED,
                    absl::StrCat("the probe ended without a result (", child_.DescribeExit(), ") ", where,
                                 replies_.mid_frame() ? ", inside a frame" : ""));
}

v1::Result Supervision::Judge(End end) {
  v1::Result result;
  if (!protocol_.ok()) {
    result = MakeResult(v1::OUTCOME_FAILED, std::string(protocol_.message()));
  } else if (!replies_.result()) {
    result = JudgeMissingResult(end);
  } else if (replies_.result()->outcome() == v1::OUTCOME_OK && end == End::kExited &&
             !child_.exited_cleanly()) {
    result = MakeResult(v1::OUTCOME_FAILED,
                        absl::StrCat("the probe measured, but ended badly (", child_.DescribeExit(), ")"));
  } else {
    result = *replies_.result();
  }
  if (result.phase().empty()) result.set_phase(replies_.phase());
  return result;
}

}  // namespace

ProbeRunner::ProbeRunner(Options options, Reaper& reaper) : options_(std::move(options)), reaper_(reaper) {}

std::vector<std::string> ProbeRunner::Kinds() const { return KnownProbeKinds(options_.probe_dir); }

std::vector<std::string> ProbeRunner::Environment() const {
  std::vector<std::string> all = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                                  "LC_ALL=C", absl::StrCat("WEFT_AGENT_PID=", getpid())};
  all.insert(all.end(), options_.environment.begin(), options_.environment.end());
  return all;
}

v1::Result ProbeRunner::Execute(const v1::ProbeRequest& request,
                                const std::function<void(std::string)>& on_rendezvous,
                                const CancelToken& cancel) {
  if (absl::Status s = ValidateProbeRequest(request); !s.ok())
    return MakeResult(v1::OUTCOME_REFUSED, std::string(s.message()));
  const absl::Duration deadline = options_.clock->Monotonic() + RequestDeadline(request);
  const absl::StatusOr<std::string> executable = ProbeExecutable(request.spec());
  if (!executable.ok()) return MakeResult(v1::OUTCOME_REFUSED, std::string(executable.status().message()));
  const std::string path = absl::StrCat(options_.probe_dir, "/", *executable);
  if (access(path.c_str(), F_OK) != 0)
    return MakeResult(
        v1::OUTCOME_REFUSED,
        absl::StrCat(path, " is not installed: it was left out when building, or probe_dir is wrong"));
  if (cancel.cancelled()) return MakeResult(v1::OUTCOME_FAILED, "cancelled before the probe was started");

  absl::StatusOr<ChildProcess> child = ChildProcess::Start(
      {.executable = path, .environment = Environment(), .input = EncodeFrame(request.SerializeAsString())},
      reaper_);
  if (!child.ok()) return MakeResult(v1::OUTCOME_FAILED, std::string(child.status().message()));

  Supervision supervision(*child, *options_.clock,
                          {.deadline = deadline, .exit_patience = options_.exit_patience}, cancel,
                          on_rendezvous);
  End end = supervision.Watch();
  // A process that exits closes its descriptors a moment before it can be waited for.
  if (end == End::kReplyClosed && child->WaitForExit(options_.grace)) end = End::kExited;
  if (end != End::kExited) {
    child->SignalGroup(SIGTERM);
    child->WaitForExit(options_.grace);
  }
  const bool gone = child->KillAndReap(kKillPatience);
  supervision.DrainAfterExit();
  const size_t strays = reaper_.SweepStrays(kKillPatience);
  v1::Result result = supervision.Judge(end);
  if (!gone || strays > 0)
    absl::StrAppend(result.mutable_detail(), result.detail().empty() ? "" : "; ",
                    "processes of the probe do not die, a driver may hang");
  result.set_tool_output(supervision.TakeOutput());
  return result;
}

v1::Result ProbeRunner::Run(const v1::ProbeRequest& request,
                            const std::function<void(std::string)>& on_rendezvous,
                            const CancelToken& cancel) {
  const absl::Time start_time = options_.clock->Now();
  const absl::Duration start = options_.clock->Monotonic();
  v1::Result result = Execute(request, on_rendezvous, cancel);
  const absl::Duration elapsed = options_.clock->Monotonic() - start;
  result.set_run_id(request.run_id());
  result.set_rank(request.rank());
  const int64_t start_ns = absl::ToUnixNanos(start_time);
  result.mutable_start_time()->set_seconds(start_ns / 1000000000);
  result.mutable_start_time()->set_nanos(static_cast<int32_t>(start_ns % 1000000000));
  const int64_t elapsed_ns = absl::ToInt64Nanoseconds(elapsed);
  result.mutable_elapsed()->set_seconds(elapsed_ns / 1000000000);
  result.mutable_elapsed()->set_nanos(static_cast<int32_t>(elapsed_ns % 1000000000));
  return result;
}

}  // namespace weft
