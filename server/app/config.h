// weft-server's configuration: file → checked values with defaults filled in. Any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "weft/v1/config.pb.h"

namespace weft {

// Reads and checks a YAML file of weft.v1.ServerConfig. kInvalidArgument lists every problem, a line each.
absl::StatusOr<v1::ServerConfig> LoadServerConfig(const std::string& path);

// Fills in the defaults named in config.proto, then checks. All problems at once.
absl::Status CompleteServerConfig(v1::ServerConfig& config);

}  // namespace weft
