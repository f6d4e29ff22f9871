// Which NCCL_* settings are in force, and where each came from. NCCL takes the environment first, then
// NCCL_CONF_FILE (else ~/.nccl.conf), then /etc/nccl.conf; the first value of a name wins.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "weft/v1/probe.pb.h"

namespace weft::nccl {

// One file that NCCL would read.
struct SettingsFile {
  std::string path;
  std::string content;
};

// Pure. `environment` as NAME=value; only NCCL_* of it count. `set_by_probe` are names whose source is
// "probe". At most 128 settings, sorted by name, values cut to 256 B of valid UTF-8.
std::vector<v1::NcclSetting> EffectiveSettings(const std::vector<std::string>& environment,
                                               const std::vector<SettingsFile>& files,
                                               const std::vector<std::string>& set_by_probe);

// The files that this process's NCCL would read, those that exist, first wins.
std::vector<SettingsFile> ReadSettingsFiles();

// Those that change what a number means, as one line; without names of hosts and files, which differ from
// node to node.
std::string FingerprintOf(const std::vector<v1::NcclSetting>& settings);

// Sets what the probe needs, before NCCL is loaded: no RAS listener beside a job's own, the log that proves
// the transport, and NCCL_NET where a network is required. Nothing else, since platforms check the rest.
// Gives the names.
std::vector<std::string> SetOwnSettings(const std::string& require_network);

// This process's environment.
std::vector<std::string> OwnEnvironment();

}  // namespace weft::nccl
