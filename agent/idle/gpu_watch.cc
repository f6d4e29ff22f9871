#include "agent/idle/gpu_watch.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "convert/convert.h"

namespace weft {
namespace {

constexpr absl::Duration kKillPatience = absl::Seconds(2);
constexpr absl::Duration kTermGrace = absl::Milliseconds(100);
constexpr size_t kMaxProblemBytes = 512;

int Milliseconds(absl::Duration wait) {
  wait = std::clamp(absl::Ceil(wait, absl::Milliseconds(1)), absl::ZeroDuration(), absl::Hours(1));
  return static_cast<int>(absl::ToInt64Milliseconds(wait));
}

// The pipe's writer gets EPIPE instead of a signal, whatever the process does about SIGPIPE.
void BlockSigpipe() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

std::string Shown(const std::string& text) {
  return EscapeControl(CutUtf8(ToValidUtf8(text), kMaxProblemBytes));
}

}  // namespace

GpuWatch::GpuWatch(Options options, Reaper& reaper)
    : options_(std::move(options)), reaper_(reaper), bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  const std::string problem = "the GPUs were not looked at yet";
  facts_.source.set_problem(problem);
  reading_.activity = absl::FailedPreconditionError(problem);
}

GpuWatch::~GpuWatch() {
  Stop();
  if (bell_ >= 0) close(bell_);
}

void GpuWatch::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "weft-gpu");
    BlockSigpipe();
    Loop();
  });
}

void GpuWatch::Stop() {
  stop_.Cancel();
  if (thread_.joinable()) thread_.join();
}

void GpuWatch::Loop() {
  while (!stop_.cancelled()) {
    const absl::Duration until = options_.clock->Monotonic() + RunReader();
    pollfd stop = {stop_.fd(), POLLIN, 0};
    while (!stop_.cancelled() && options_.clock->Monotonic() < until)
      poll(&stop, 1, Milliseconds(until - options_.clock->Monotonic()));
  }
}

absl::Duration GpuWatch::RunReader() {
  std::vector<std::string> environment = options_.environment;
  environment.push_back(absl::StrCat("WEFT_AGENT_PID=", getpid()));
  absl::StatusOr<ChildProcess> child = ChildProcess::Start({.executable = options_.executable,
                                                            .environment = std::move(environment),
                                                            .input = "",
                                                            .keep_input = true},
                                                           reaper_);
  if (!child.ok()) {
    Fail(std::string(child.status().message()));
    return options_.retry_absent;
  }
  const absl::Status over = Converse(*child);
  const std::string problem(over.message());
  if (!over.ok()) Fail(problem);
  child->SignalGroup(SIGTERM);
  child->WaitForExit(kTermGrace);
  // Nothing else is started while this one is there; it goes when the driver lets go of it.
  while (!child->KillAndReap(kKillPatience) && !stop_.cancelled())
    Fail(absl::StrCat(problem, "; its reader does not even die"));
  return absl::IsNotFound(over) ? options_.retry_absent : options_.retry;
}

absl::Status GpuWatch::Converse(ChildProcess& child) {
  FrameDecoder decoder;
  phase_ = "its start";
  last_words_.clear();
  has_report_ = false;
  heard_ = options_.clock->Monotonic();
  bool paced = SendPace(child);
  while (paced && !stop_.cancelled()) {
    const absl::Duration patience =
        has_report_ ? Pace() + options_.silence_patience : options_.start_patience;
    const absl::Duration left = heard_ + patience - options_.clock->Monotonic();
    if (left <= absl::ZeroDuration())
      return absl::UnavailableError(absl::StrCat("the driver hangs at: ", phase_));
    std::array<pollfd, 4> fds = {{{child.reply_fd(), POLLIN, 0},
                                  {child.output_fd(), POLLIN, 0},
                                  {stop_.fd(), POLLIN, 0},
                                  {bell_, POLLIN, 0}}};
    poll(fds.data(), fds.size(), Milliseconds(left));
    // What the driver's libraries print is nothing to us, but it must not fill the pipe.
    std::array<char, 4096> ignored;
    if (child.output_fd() >= 0 && read(child.output_fd(), ignored.data(), ignored.size()) == 0)
      child.CloseOutput();
    if (absl::Status status = TakeMessages(child, decoder); !status.ok()) return status;
    uint64_t rings = 0;
    if (read(bell_, &rings, sizeof rings) > 0) paced = SendPace(child);
  }
  if (stop_.cancelled()) return absl::OkStatus();
  return absl::UnavailableError("the reader of the GPUs takes no orders");
}

absl::Status GpuWatch::TakeMessages(ChildProcess& child, FrameDecoder& decoder) {
  std::array<char, 16384> buffer;
  const ssize_t got = read(child.reply_fd(), buffer.data(), buffer.size());
  if (got == 0 && !last_words_.empty()) return absl::NotFoundError(last_words_);
  if (got == 0) return absl::UnavailableError(absl::StrCat("the reader of the GPUs ended at: ", phase_));
  if (got < 0) return absl::OkStatus();
  decoder.Append({buffer.data(), static_cast<size_t>(got)});
  while (true) {
    absl::StatusOr<std::optional<std::string>> frame = decoder.Next();
    if (!frame.ok()) return frame.status();
    if (!frame->has_value()) return absl::OkStatus();
    v1::GpuReaderMessage message;
    if (!message.ParseFromString(**frame))
      return absl::InvalidArgumentError("the reader of the GPUs broke its protocol");
    Take(message);
  }
}

void GpuWatch::Take(const v1::GpuReaderMessage& message) {
  heard_ = options_.clock->Monotonic();
  if (message.has_phase()) phase_ = Shown(message.phase());
  if (message.has_report()) TakeReport(message.report());
  if (!message.has_activity()) return;
  MutexLock lock(mutex_);
  reading_.activity = message.activity();
  ++reading_.number;
  reading_time_ = heard_;
  cv_.NotifyAll();
}

void GpuWatch::TakeReport(const v1::GpuReport& report) {
  last_words_ = Shown(report.problem());
  if (!last_words_.empty()) return;
  has_report_ = true;
  const std::string problem = Shown(absl::StrJoin(report.warnings(), "; "));
  MutexLock lock(mutex_);
  const bool same = facts_.report.SerializeAsString() == report.SerializeAsString();
  if (!same || facts_.source.problem() != problem) ++facts_.revision;
  if (!same) ToProto(options_.clock->Now(), facts_.source.mutable_read_time());
  facts_.report = report;
  facts_.source.set_problem(problem);
}

bool GpuWatch::SendPace(ChildProcess& child) {
  v1::GpuReaderOrder order;
  ToProto(Pace(), order.mutable_activity_interval());
  ToProto(options_.report_interval, order.mutable_report_interval());
  const std::string frame = EncodeFrame(order.SerializeAsString());
  return write(child.input_fd(), frame.data(), frame.size()) == static_cast<ssize_t>(frame.size());
}

void GpuWatch::Fail(const std::string& problem) {
  MutexLock lock(mutex_);
  if (facts_.source.problem() != problem) ++facts_.revision;
  facts_.source.set_problem(problem);
  reading_.activity = absl::FailedPreconditionError(problem);
  ++reading_.number;
  cv_.NotifyAll();
}

GpuWatch::Facts GpuWatch::facts() const {
  MutexLock lock(mutex_);
  return facts_;
}

uint64_t GpuWatch::revision() const {
  MutexLock lock(mutex_);
  return facts_.revision;
}

GpuWatch::Reading GpuWatch::last_reading() const {
  MutexLock lock(mutex_);
  const absl::Duration age = options_.clock->Monotonic() - reading_time_;
  if (!reading_.activity.ok() || age <= 2 * options_.activity_interval) return reading_;
  return {reading_.number,
          absl::FailedPreconditionError(absl::StrCat("the GPUs were last looked at ",
                                                     absl::FormatDuration(absl::Trunc(age, absl::Seconds(1))),
                                                     " ago: the driver answers slowly"))};
}

std::optional<GpuWatch::Reading> GpuWatch::AwaitReading(uint64_t after, absl::Duration patience) {
  const absl::Duration until = options_.clock->Monotonic() + patience;
  MutexLock lock(mutex_);
  while (reading_.number <= after) {
    const absl::Duration left = until - options_.clock->Monotonic();
    if (left <= absl::ZeroDuration()) return std::nullopt;
    options_.clock->WaitFor(mutex_, cv_, left);
  }
  return reading_;
}

void GpuWatch::Ring() {
  const uint64_t one = 1;
  // A full counter rings just as well.
  if (write(bell_, &one, sizeof one) < 0) return;
}

void GpuWatch::Attend() {
  {
    MutexLock lock(mutex_);
    ++attention_;
  }
  Ring();
}

void GpuWatch::Ignore() {
  {
    MutexLock lock(mutex_);
    --attention_;
  }
  Ring();
}

absl::Duration GpuWatch::Pace() const {
  MutexLock lock(mutex_);
  return attention_ > 0 ? options_.attention_interval : options_.activity_interval;
}

}  // namespace weft
