// weft-gpu-inventory: tells the agent about this machine's GPUs, and ends when the agent does. Takes
// GpuReaderOrder frames on descriptor 0 and answers GpuReaderMessage frames on descriptor 3. `--json` prints
// everything once.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "agent/inventory/gpu/gpu_reader.h"
#include "base/clock.h"
#include "base/framing.h"
#include "google/protobuf/util/json_util.h"

namespace weft {
namespace {

constexpr int kOrderFd = 0;
constexpr int kMessageFd = 3;
constexpr int kExitOk = 0;
constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr absl::Duration kLeastActivity = absl::Milliseconds(10);
constexpr absl::Duration kLeastReport = absl::Seconds(1);
constexpr absl::Duration kLongest = absl::Hours(1);

std::string LibraryPath() {
  const char* path = getenv("WEFT_NVML_LIBRARY");
  return path == nullptr || *path == '\0' ? "libnvidia-ml.so.1" : path;
}

// The end of descriptor 0 tells that the agent is gone, but not to a process that hangs in the driver.
void DieWithAgent() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const char* agent = getenv("WEFT_AGENT_PID");
  pid_t pid = 0;
  if (agent != nullptr && absl::SimpleAtoi(agent, &pid) && getppid() != pid) _exit(kExitUsage);
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
}

// When nobody reads any more, there is nothing left to do.
void Say(const v1::GpuReaderMessage& message) {
  if (!WriteFrame(kMessageFd, message.SerializeAsString()).ok()) _exit(kExitOk);
}

void SayPhase(const std::string& phase) {
  v1::GpuReaderMessage message;
  message.set_phase(phase);
  Say(message);
}

absl::Duration Bounded(const google::protobuf::Duration& in, absl::Duration least) {
  return std::clamp(absl::Seconds(in.seconds()) + absl::Nanoseconds(in.nanos()), least, kLongest);
}

class Conversation {
 public:
  explicit Conversation(GpuReader& reader) : reader_(reader) {}

  // Until descriptor 0 ends.
  int Run() {
    while (true) {
      const absl::Duration now = Clock::Real().Monotonic();
      if (now >= next_report_) {
        reader_.CollectXids(Clock::Real().Now());
        v1::GpuReaderMessage message;
        *message.mutable_report() = reader_.ReadReport();
        Say(message);
        next_report_ = now + report_interval_;
      }
      if (now >= next_activity_) {
        v1::GpuReaderMessage message;
        *message.mutable_activity() = reader_.ReadActivity();
        Say(message);
        // From its start, so that the time that a reading takes does not slow the pace.
        next_activity_ = now + activity_interval_;
      }
      if (!AwaitOrder()) return kExitOk;
    }
  }

 private:
  // Waits for an order or until the next reading is due. False at the end of the orders.
  bool AwaitOrder() {
    const absl::Duration wait = std::min(next_report_, next_activity_) - Clock::Real().Monotonic();
    pollfd order = {kOrderFd, POLLIN, 0};
    const int64_t ms = absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1)));
    if (poll(&order, 1, static_cast<int>(std::max<int64_t>(ms, 0))) <= 0) return true;
    char buffer[4096];
    const ssize_t got = read(kOrderFd, buffer, sizeof buffer);
    if (got < 0) return errno == EINTR || errno == EAGAIN;
    if (got == 0) return false;
    orders_.Append({buffer, static_cast<size_t>(got)});
    return TakeOrders();
  }

  bool TakeOrders() {
    while (true) {
      absl::StatusOr<std::optional<std::string>> frame = orders_.Next();
      if (!frame.ok()) return false;
      if (!frame->has_value()) return true;
      v1::GpuReaderOrder order;
      if (!order.ParseFromString(**frame)) return false;
      if (order.has_activity_interval()) {
        activity_interval_ = Bounded(order.activity_interval(), kLeastActivity);
        // Who asks for another pace wants to know now.
        next_activity_ = -absl::InfiniteDuration();
      }
      if (!order.has_report_interval()) continue;
      report_interval_ = Bounded(order.report_interval(), kLeastReport);
      next_report_ = std::min(next_report_, Clock::Real().Monotonic() + report_interval_);
    }
  }

  GpuReader& reader_;
  FrameDecoder orders_;
  absl::Duration activity_interval_ = absl::Seconds(5);
  absl::Duration report_interval_ = absl::Seconds(60);
  absl::Duration next_activity_ = -absl::InfiniteDuration();
  absl::Duration next_report_ = -absl::InfiniteDuration();
};

int TellAgent() {
  DieWithAgent();
  signal(SIGPIPE, SIG_IGN);
  if (fcntl(kMessageFd, F_GETFD) < 0) {
    std::fputs("weft-gpu-inventory is run by weft-agent; `weft-gpu-inventory --json` shows what it sees\n",
               stderr);
    return kExitUsage;
  }
  SayPhase("start of NVML");
  absl::StatusOr<std::unique_ptr<nvml::Library>> library = nvml::Library::Open(LibraryPath());
  if (!library.ok()) {
    v1::GpuReaderMessage message;
    message.mutable_report()->set_problem(std::string(library.status().message()));
    Say(message);
    return kExitOk;
  }
  GpuReader reader(**library, SayPhase);
  return Conversation(reader).Run();
}

std::string Json(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string out;
  const auto status = google::protobuf::util::MessageToJsonString(message, &out, options);
  return status.ok() ? out : "null";
}

int PrintJson() {
  v1::GpuReport report;
  v1::GpuActivity activity;
  absl::StatusOr<std::unique_ptr<nvml::Library>> library = nvml::Library::Open(LibraryPath());
  if (library.ok()) {
    GpuReader reader(**library, [](const std::string&) {});
    report = reader.ReadReport();
    activity = reader.ReadActivity();
  } else {
    report.set_problem(std::string(library.status().message()));
  }
  std::printf("{\"report\": %s, \"activity\": %s}\n", Json(report).c_str(), Json(activity).c_str());
  return library.ok() ? kExitOk : kExitFailed;
}

int Main(int argc, char** argv) {
  if (argc == 1) return TellAgent();
  if (argc == 2 && std::string(argv[1]) == "--json") return PrintJson();
  std::fputs("usage: weft-gpu-inventory [--json]\n", stderr);
  return kExitUsage;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  const int code = weft::Main(argc, argv);
  std::fflush(nullptr);
  // Not exit(): what the driver's libraries do in their destructors is no part of the answer.
  _exit(code);
}
