#include "cli/exit_code.h"

namespace weft::cli {

ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kOk;
    case absl::StatusCode::kInvalidArgument:
      return kUsage;
    case absl::StatusCode::kNotFound:
      return kNotFound;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return kNotAllowed;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kUnreachable;
    case absl::StatusCode::kCancelled:
      return kInterrupted;
    default:
      return kFailed;
  }
}

const char* ExitCodeHelp() {
  return R"(Exit codes of weft:
  0    ok
  1    failed
  2    usage: a flag or argument is wrong, or the server refused a value
  3    not found
  4    not allowed, or not logged in
  5    server unreachable or timed out
  6    partial: some of the answer is missing
  130  interrupted

weft check has codes of its own, chosen with --exit-style:
  nagios  0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN   (Nagios, LBNL NHC, Slurm HealthCheckProgram)
  npd     0 OK, 1 not OK, 2 UNKNOWN                (Kubernetes Node Problem Detector)
  bool    0 OK, 1 anything else                    (Slurm prolog and epilog, scripts)
A node that is missing, stale or never measured is UNKNOWN, never OK.
)";
}

}  // namespace weft::cli
