// From the configuration file and the command line to checked options.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "weft/v1/config.pb.h"

namespace weft {

// What the command line says; it wins over the file.
struct AgentFlags {
  std::string config_file;
  std::string server;
  std::string state_dir;
  std::string hostname;
  std::vector<std::string> labels;  // "key=value"
  bool insecure = false;
  std::string tls_certificate_file;
  std::string tls_key_file;
  std::string tls_ca_file;
};

// Reads the file, if one is named, and lays the flags over it. All problems of the file come at once.
absl::StatusOr<v1::AgentConfig> LoadAgentConfig(const AgentFlags& flags);

// Fills in defaults that need no look at the machine, and says everything that is wrong, one line each.
absl::Status CheckAgentConfig(v1::AgentConfig* config);

}  // namespace weft
