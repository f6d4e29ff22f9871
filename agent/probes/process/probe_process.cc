#include "agent/probes/process/probe_process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "agent/probes/process/ticks.h"
#include "base/framing.h"

namespace weft {
namespace {

constexpr int kRequestFd = 0;
constexpr int kReplyFd = 3;
constexpr int kExitOk = 0;
constexpr int kExitUsage = 2;

// A probe must not outlive its agent, not even one that was killed. The agent may have died before prctl; its
// number tells, since then somebody else is the parent.
void DieWithAgent() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const char* agent = getenv("WEFT_AGENT_PID");
  pid_t pid = 0;
  if (agent != nullptr && absl::SimpleAtoi(agent, &pid) && getppid() != pid) _exit(kExitUsage);
}

// Libraries below libfabric catch these before main() to print stacks; a probe that is told to end, ends.
void DefaultSignals() {
  for (const int number : {SIGTERM, SIGINT, SIGSEGV, SIGBUS, SIGILL, SIGABRT}) signal(number, SIG_DFL);
}

void NoCoreFiles() {
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
}

// Not exit(): what drivers and providers do in their destructors is no part of the result.
[[noreturn]] void End(int code) {
  std::fflush(nullptr);
  _exit(code);
}

// When nobody reads any more, there is nothing left to do.
void Reply(const v1::ProbeReply& reply) {
  if (!WriteFrame(kReplyFd, reply.SerializeAsString()).ok()) _exit(kExitUsage);
}

// How long this process has existed, in nanoseconds; 0 if the kernel does not say. Some libraries that
// libfabric pulls in calibrate themselves before main() and take seconds for it on a busy host.
int64_t ProcessAge() {
  std::ifstream in("/proc/self/stat");
  std::string line;
  std::getline(in, line, '\0');
  // Field 22 is the start in clock ticks since boot; the name, field 2, may hold spaces.
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(line).substr(name_end + 1), ' ', absl::SkipEmpty());
  constexpr size_t kStartField = 22 - 3;
  int64_t start = 0;
  if (fields.size() <= kStartField || !absl::SimpleAtoi(fields[kStartField], &start)) return 0;
  timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  const int64_t age = now.tv_sec * kSecond + now.tv_nsec - start * (kSecond / sysconf(_SC_CLK_TCK));
  return std::max<int64_t>(age, 0);
}

}  // namespace

void ServeProbe(
    const char* name, v1::ProbeSpec::KindCase kind,
    const std::function<v1::Result(const v1::ProbeRequest& request, const ProbeSinks& sinks)>& run) {
  DieWithAgent();
  DefaultSignals();
  NoCoreFiles();
  const absl::StatusOr<std::string> frame = ReadFrame(kRequestFd);
  v1::ProbeRequest request;
  if (!frame.ok() || !request.ParseFromString(*frame) || request.spec().kind_case() != kind) {
    std::fprintf(stderr,
                 "%s is run by weft-agent: it reads a framed request on descriptor 0 and answers on "
                 "descriptor 3\n",
                 name);
    End(kExitUsage);
  }
  v1::ProbeReply reply;
  *reply.mutable_result() = run(request, {.on_rendezvous =
                                              [](const std::string& rendezvous) {
                                                v1::ProbeReply offer;
                                                offer.set_rendezvous(rendezvous);
                                                Reply(offer);
                                              },
                                          .on_phase =
                                              [](const char* phase) {
                                                v1::ProbeReply begin;
                                                begin.set_phase(phase);
                                                Reply(begin);
                                              }});
  Reply(reply);
  End(kExitOk);
}

int64_t ProbeDeadline(const v1::ProbeRequest& request) {
  const int64_t given = request.deadline().seconds() * kSecond + request.deadline().nanos();
  return NowTicks() - ProcessAge() + given - std::clamp(given / 8, 100 * kMillisecond, 2 * kSecond);
}

}  // namespace weft
