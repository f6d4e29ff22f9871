// From the flags of `weft maintenance create` to a window. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "weft/v1/maintenance.pb.h"

namespace weft::cli {

// As typed; empty where not given.
struct WindowFlags {
  std::string nodes;                 // hostlist or globs
  std::vector<std::string> matches;  // "label=v1,v2" or "label!=v1,v2"
  std::string start;                 // one-off; default now
  std::string end;                   // one-off; this or `length`
  std::string length;                // --for
  std::string weekly;                // days
  std::string at;                    // weekly
  std::string zone;                  // --tz; needed for weekly
  std::string until;                 // weekly
  std::string reason;
  std::string by;
};

// Checks what only the command line can know (which flags belong together, how they are written); the bounds
// of windows are the server's business. kInvalidArgument names the flag. `local` stands for the machine's
// zone.
absl::StatusOr<v1::MaintenanceWindow> BuildWindow(const WindowFlags& flags, absl::Time now,
                                                  absl::TimeZone local);

}  // namespace weft::cli
