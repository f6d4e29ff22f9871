#include "agent/app/options.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/text.h"
#include "convert/yaml.h"

namespace weft {
namespace {

constexpr uint64_t kDefaultSpoolBytes = 64ull << 20;
constexpr uint64_t kLeastSpoolBytes = 1ull << 20;
constexpr uint64_t kMostSpoolBytes = 64ull << 30;
constexpr int kMaxLabels = 32;
constexpr size_t kMaxLabelValue = 128;
constexpr int kMaxProbeVariables = 128;
constexpr size_t kMaxProbeValue = 4096;

void Override(const std::string& flag, std::string* field) {
  if (!flag.empty()) *field = flag;
}

absl::Status OverrideLabels(const std::vector<std::string>& labels, v1::AgentConfig* config) {
  for (const std::string& label : labels) {
    const std::pair<std::string, std::string> kv = absl::StrSplit(label, absl::MaxSplits('=', 1));
    if (!absl::StrContains(label, "="))
      return absl::InvalidArgumentError(absl::StrCat("--label ", label, ": write it as key=value"));
    (*config->mutable_labels())[kv.first] = kv.second;
  }
  return absl::OkStatus();
}

void OverrideTls(const AgentFlags& flags, v1::AgentConfig* config) {
  if (flags.tls_certificate_file.empty() && flags.tls_key_file.empty() && flags.tls_ca_file.empty()) return;
  Override(flags.tls_certificate_file, config->mutable_tls()->mutable_certificate_file());
  Override(flags.tls_key_file, config->mutable_tls()->mutable_key_file());
  Override(flags.tls_ca_file, config->mutable_tls()->mutable_ca_file());
}

bool IsLabelKey(absl::string_view key) {
  return !key.empty() && key.size() <= 64 && absl::ascii_islower(static_cast<unsigned char>(key[0])) &&
         std::all_of(key.begin(), key.end(), [](char c) {
           const auto u = static_cast<unsigned char>(c);
           return absl::ascii_islower(u) || absl::ascii_isdigit(u) || c == '_';
         });
}

bool IsLabelValue(absl::string_view value) {
  return value.size() <= kMaxLabelValue && IsValidUtf8(value) && EscapeControl(value) == value;
}

using Problems = std::vector<std::string>;

// "host:port", "[::1]:port", or gRPC's own forms such as unix:///run/weft.sock and dns:///host:port.
void CheckServer(const std::string& address, Problems* problems) {
  if (address.empty()) {
    problems->push_back("server_address is missing; for example weft.example:7443");
    return;
  }
  if (absl::StartsWith(address, "unix:") || absl::StrContains(address, ":///")) return;
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  const bool good = colon != std::string::npos && colon > 0 &&
                    absl::SimpleAtoi(address.substr(colon + 1), &port) && port > 0 && port < 65536;
  if (!good)
    problems->push_back(
        absl::StrCat("server_address ", EscapeControl(address), " is not host:port, e.g. weft.example:7443"));
}

void CheckTls(const v1::AgentConfig& config, Problems* problems) {
  const v1::TlsConfig& tls = config.tls();
  const bool all = !tls.certificate_file().empty() && !tls.key_file().empty() && !tls.ca_file().empty();
  const bool none = tls.certificate_file().empty() && tls.key_file().empty() && tls.ca_file().empty();
  if (!all && !none) problems->push_back("tls needs certificate_file, key_file and ca_file, all three");
  if (none && !config.insecure())
    problems->push_back("tls is missing; set insecure: true only for trials on one machine");
  if (!none && config.insecure()) problems->push_back("tls and insecure: true exclude each other");
}

void CheckLabels(const v1::AgentConfig& config, Problems* problems) {
  if (config.labels_size() > kMaxLabels)
    problems->push_back(absl::StrCat("labels: ", config.labels_size(), " given, at most ", kMaxLabels));
  for (const auto& [key, value] : config.labels()) {
    if (!IsLabelKey(key))
      problems->push_back(absl::StrCat("labels: key ", EscapeControl(key), " is not [a-z][a-z0-9_]*"));
    if (!IsLabelValue(value))
      problems->push_back(absl::StrCat("labels: the value of ", EscapeControl(key),
                                       " is not plain text of at most ", kMaxLabelValue, " bytes"));
  }
}

// What a probe may be told. Loader settings other than the search path are not the site's business here.
bool IsProbeVariable(absl::string_view name) {
  if (!IsSafeName(name) || absl::StrContains(name, "=")) return false;
  if (name == "LD_LIBRARY_PATH") return true;
  for (const absl::string_view prefix : {"NCCL_", "FI_", "CUDA_", "OFI_", "UCX_", "IBV_"})
    if (absl::StartsWith(name, prefix) && name.size() > prefix.size()) return true;
  return false;
}

void CheckProbes(const v1::AgentConfig& config, Problems* problems) {
  if (!config.probe_dir().empty() && config.probe_dir()[0] != '/')
    problems->push_back("probe_dir is not an absolute path");
  if (!config.nccl_library().empty() && config.nccl_library()[0] != '/')
    problems->push_back("nccl_library is not an absolute path");
  if (config.probe_environment_size() > kMaxProbeVariables)
    problems->push_back(absl::StrCat("probe_environment: ", config.probe_environment_size(),
                                     " given, at most ", kMaxProbeVariables));
  for (const auto& [name, value] : config.probe_environment()) {
    if (!IsProbeVariable(name))
      problems->push_back(
          absl::StrCat("probe_environment: ", EscapeControl(name),
                       " is none of NCCL_*, FI_*, CUDA_*, OFI_*, UCX_*, IBV_*, LD_LIBRARY_PATH"));
    if (value.size() > kMaxProbeValue || EscapeControl(value) != value)
      problems->push_back(absl::StrCat("probe_environment: the value of ", EscapeControl(name),
                                       " is not plain text of at most ", kMaxProbeValue, " bytes"));
  }
}

void CheckRest(const v1::AgentConfig& config, Problems* problems) {
  if (config.state_dir().empty())
    problems->push_back("state_dir is missing; for example /var/lib/weft-agent");
  if (!config.hostname().empty() && !IsSafeName(config.hostname()))
    problems->push_back("hostname is not 1 to 253 printable ASCII characters without spaces");
  if (config.spool_bytes() < kLeastSpoolBytes || config.spool_bytes() > kMostSpoolBytes)
    problems->push_back(absl::StrCat("spool_bytes is ", config.spool_bytes(), ", must be ", kLeastSpoolBytes,
                                     " to ", kMostSpoolBytes));
  if (!config.nvml_library().empty() && config.nvml_library()[0] != '/')
    problems->push_back("nvml_library is not an absolute path");
  if (!config.metrics_address().empty())
    problems->push_back("metrics_address: this version serves no metrics of the agent; leave it out");
}

}  // namespace

absl::StatusOr<v1::AgentConfig> LoadAgentConfig(const AgentFlags& flags) {
  v1::AgentConfig config;
  if (!flags.config_file.empty()) {
    const absl::StatusOr<std::string> text = ReadFile(flags.config_file);
    if (!text.ok()) return text.status();
    const absl::Status parsed = ParseYaml(*text, flags.config_file, &config, YamlZero::kIsRefused);
    if (!parsed.ok()) return parsed;
  }
  Override(flags.server, config.mutable_server_address());
  Override(flags.state_dir, config.mutable_state_dir());
  Override(flags.hostname, config.mutable_hostname());
  OverrideTls(flags, &config);
  if (flags.insecure) config.set_insecure(true);
  const absl::Status labels = OverrideLabels(flags.labels, &config);
  if (!labels.ok()) return labels;
  return config;
}

absl::Status CheckAgentConfig(v1::AgentConfig* config) {
  if (config->spool_bytes() == 0) config->set_spool_bytes(kDefaultSpoolBytes);
  Problems problems;
  CheckServer(config->server_address(), &problems);
  CheckTls(*config, &problems);
  CheckLabels(*config, &problems);
  CheckProbes(*config, &problems);
  CheckRest(*config, &problems);
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(problems, "\n"));
}

}  // namespace weft
