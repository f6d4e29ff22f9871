// What the process tells its caller. The numbers are a contract; see `weft help exit-codes`.
#pragma once

#include "absl/status/status.h"

namespace weft::cli {

enum ExitCode : int {
  kOk = 0,
  kFailed = 1,
  kUsage = 2,
  kNotFound = 3,
  kNotAllowed = 4,   // not allowed, or not logged in
  kUnreachable = 5,  // the server cannot be reached, or did not answer in time
  kPartial = 6,      // some of the answer is missing
  kInterrupted = 130,
};

ExitCode ExitCodeOf(const absl::Status& status);
// The text of `weft help exit-codes`.
const char* ExitCodeHelp();

}  // namespace weft::cli
