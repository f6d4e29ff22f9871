// weft-probe-fabric: reads one ProbeRequest on descriptor 0 and answers on descriptor 3. Run by the agent.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "agent/probes/fabric/probe.h"
#include "base/framing.h"

namespace weft::fabric {
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

// When nobody reads any more, there is nothing left to do.
void Reply(const v1::ProbeReply& reply) {
  if (!WriteFrame(kReplyFd, reply.SerializeAsString()).ok()) _exit(kExitUsage);
}

int Main() {
  DieWithAgent();
  DefaultSignals();
  NoCoreFiles();
  const absl::StatusOr<std::string> frame = ReadFrame(kRequestFd);
  v1::ProbeRequest request;
  if (!frame.ok() || !request.ParseFromString(*frame) || !request.spec().has_fabric()) {
    std::fputs(
        "weft-probe-fabric is run by weft-agent: it reads a framed request on descriptor 0 and answers on "
        "descriptor 3\n",
        stderr);
    return kExitUsage;
  }
  v1::ProbeReply reply;
  *reply.mutable_result() = RunProbe(request, {.on_rendezvous =
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
  return kExitOk;
}

}  // namespace
}  // namespace weft::fabric

int main() {
  const int code = weft::fabric::Main();
  std::fflush(nullptr);
  // Not exit(): what drivers and providers do in their destructors is no part of the result.
  _exit(code);
}
