#include "server/app/config.h"

#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "agent/runner/probe_spec.h"
#include "base/file.h"
#include "boost/asio/ip/host_name.hpp"
#include "convert/convert.h"
#include "convert/yaml.h"

namespace weft {
namespace {

using Problems = std::vector<std::string>;

google::protobuf::Duration DurationMessage(absl::Duration duration) {
  google::protobuf::Duration message;
  ToProto(duration, &message);
  return message;
}

// Where people reach the HTTP port: an address that only says "any" is replaced by this machine's name.
std::string DefaultUrl(const std::string& http_address) {
  absl::string_view host = http_address, port = "";
  const size_t colon = host.rfind(':');
  if (colon != absl::string_view::npos) {
    port = host.substr(colon);
    host = host.substr(0, colon);
  }
  if (host != "0.0.0.0" && host != "[::]" && !host.empty()) return absl::StrCat("http://", http_address);
  return absl::StrCat("http://", boost::asio::ip::host_name(), port);
}

void FillDefaults(v1::ServerConfig& config) {
  if (config.grpc_address().empty()) config.set_grpc_address("127.0.0.1:7443");
  if (config.http_address().empty()) config.set_http_address("127.0.0.1:7480");
  if (!config.has_retention()) *config.mutable_retention() = DurationMessage(absl::Hours(24 * 30));
  if (!config.has_heartbeat_interval())
    *config.mutable_heartbeat_interval() = DurationMessage(absl::Seconds(15));
  if (!config.has_missing_after()) *config.mutable_missing_after() = DurationMessage(absl::Minutes(5));
  if (!config.has_reconnect_spread()) *config.mutable_reconnect_spread() = DurationMessage(absl::Seconds(5));
  if (config.external_url().empty()) config.set_external_url(DefaultUrl(config.http_address()));
  for (v1::ProbePlan& plan : *config.mutable_probes()) {
    if (!plan.has_period()) *plan.mutable_period() = DurationMessage(absl::Minutes(15));
    if (!plan.has_deadline()) *plan.mutable_deadline() = DurationMessage(absl::Seconds(60));
    if (plan.max_concurrent_runs() == 0) plan.set_max_concurrent_runs(16);
    if (plan.cohort_label().empty()) plan.set_cohort_label("cohort");
    if (plan.group_size() == 0) plan.set_group_size(plan.spec().has_gpu_copy() ? 1 : 2);
  }
  v1::DetectorConfig& detector = *config.mutable_detector();
  if (detector.slow_ratio() == 0) detector.set_slow_ratio(0.85);
  if (detector.recovered_ratio() == 0) detector.set_recovered_ratio(0.92);
  if (detector.slow_runs() == 0) detector.set_slow_runs(3);
  if (detector.recovered_runs() == 0) detector.set_recovered_runs(3);
  if (detector.baseline_runs() == 0) detector.set_baseline_runs(6);
}

bool IsReceiverName(absl::string_view name) {
  if (name.empty() || name.size() > 64) return false;
  for (const char c : name) {
    const auto u = static_cast<unsigned char>(c);
    if (!absl::ascii_islower(u) && !absl::ascii_isdigit(u) && c != '_' && c != '-') return false;
  }
  return true;
}

void CheckRange(absl::string_view key, const google::protobuf::Duration& value, absl::Duration least,
                absl::Duration most, Problems& problems) {
  const absl::Duration duration = FromProto(value);
  if (duration < least || duration > most) {
    problems.push_back(absl::StrCat(key, " is ", absl::FormatDuration(duration), ", must be from ",
                                    absl::FormatDuration(least), " to ", absl::FormatDuration(most)));
  }
}

void CheckSecurity(const v1::ServerConfig& config, Problems& problems) {
  const v1::TlsConfig& tls = config.tls();
  const bool complete = !tls.certificate_file().empty() && !tls.key_file().empty() && !tls.ca_file().empty();
  const bool loopback = absl::StartsWith(config.grpc_address(), "127.") ||
                        absl::StartsWith(config.grpc_address(), "localhost:") ||
                        absl::StartsWith(config.grpc_address(), "[::1]:");
  if (config.insecure() && config.has_tls())
    problems.push_back("give either tls or insecure: true, not both");
  if (!config.insecure() && !complete) {
    problems.push_back(
        "tls needs certificate_file, key_file and ca_file (or insecure: true for a trial on one machine)");
  }
  if (config.insecure() && !loopback) {
    problems.push_back(
        absl::StrCat("insecure: true is only for loopback, and grpc_address is ", config.grpc_address()));
  }
}

constexpr uint32_t kMaxGroupSize = 1024;

// 0 stands for the default in a spec on its way; from a person it is more likely a mistake.
void CheckParts(const v1::NcclProbe& probe, const std::string& where, Problems& problems) {
  if (probe.has_init_deadline() && FromProto(probe.init_deadline()) == absl::ZeroDuration())
    problems.push_back(absl::StrCat(where, "nccl.init_deadline must be above 0"));
  if (probe.has_size_deadline() && FromProto(probe.size_deadline()) == absl::ZeroDuration())
    problems.push_back(absl::StrCat(where, "nccl.size_deadline must be above 0"));
}

// `where` names the probe.
void CheckProbe(const v1::ProbePlan& plan, const std::string& where, Problems& problems) {
  if (plan.spec().kind_case() == v1::ProbeSpec::KIND_NOT_SET) {
    problems.push_back(absl::StrCat(where, "spec needs one of fabric, nccl, gpu_copy"));
  } else if (absl::Status status = ValidateProbeSpec(plan.spec()); !status.ok()) {
    problems.push_back(absl::StrCat(where, std::string(status.message())));
  }
  if (plan.spec().has_fabric() && plan.group_size() != 2)
    problems.push_back(absl::StrCat(where, "group_size of the fabric probe must be 2"));
  if (plan.spec().has_gpu_copy() && plan.group_size() != 1)
    problems.push_back(absl::StrCat(where, "group_size of the copy probe must be 1"));
  if (plan.spec().has_nccl() && (plan.group_size() < 2 || plan.group_size() > kMaxGroupSize))
    problems.push_back(absl::StrCat(where, "group_size of an NCCL probe must be 2 to ", kMaxGroupSize));
  CheckParts(plan.spec().nccl(), where, problems);
  CheckRange(absl::StrCat(where, "period"), plan.period(), absl::Seconds(1), absl::Hours(24 * 7), problems);
  CheckRange(absl::StrCat(where, "deadline"), plan.deadline(), absl::Seconds(1), absl::Hours(1), problems);
}

void CheckProbes(const v1::ServerConfig& config, Problems& problems) {
  if (config.probes().empty()) problems.push_back("probes: at least one is needed");
  std::set<std::string> names;
  for (const v1::ProbePlan& plan : config.probes()) {
    const std::string& name = plan.spec().name();
    if (!names.insert(name).second)
      problems.push_back(absl::StrCat("probes: name \"", name, "\" appears twice"));
    CheckProbe(plan, absl::StrCat("probe \"", name, "\": "), problems);
  }
}

void CheckReceivers(const v1::ServerConfig& config, Problems& problems) {
  std::set<std::string> names;
  for (const v1::ReceiverConfig& receiver : config.receivers()) {
    if (!IsReceiverName(receiver.name())) {
      problems.push_back(
          absl::StrCat("receivers: name \"", receiver.name(), "\" must be 1 to 64 of [a-z0-9_-]"));
    }
    if (!names.insert(receiver.name()).second) {
      problems.push_back(absl::StrCat("receivers: name \"", receiver.name(), "\" appears twice"));
    }
    if (!absl::StartsWith(receiver.url(), "https://") && !absl::StartsWith(receiver.url(), "http://")) {
      problems.push_back(
          absl::StrCat("receivers: ", receiver.name(), ": url must begin with https:// or http://"));
    }
    if (receiver.secret_file().empty()) {
      problems.push_back(absl::StrCat("receivers: ", receiver.name(), ": secret_file is missing"));
    }
  }
}

void CheckDetector(const v1::DetectorConfig& detector, Problems& problems) {
  if (!(detector.slow_ratio() >= 0.3 && detector.slow_ratio() <= 0.99)) {
    problems.push_back("detector: slow_ratio must be from 0.3 to 0.99");
  }
  if (!(detector.recovered_ratio() > detector.slow_ratio() && detector.recovered_ratio() <= 1)) {
    problems.push_back("detector: recovered_ratio must be above slow_ratio and at most 1");
  }
  for (const auto& [key, runs] :
       {std::pair("slow_runs", detector.slow_runs()), std::pair("recovered_runs", detector.recovered_runs()),
        std::pair("baseline_runs", detector.baseline_runs())}) {
    if (runs > 1000) problems.push_back(absl::StrCat("detector: ", key, " is ", runs, ", at most 1000"));
  }
}

}  // namespace

absl::Status CompleteServerConfig(v1::ServerConfig& config) {
  FillDefaults(config);
  Problems problems;
  if (config.data_dir().empty()) problems.push_back("data_dir is missing");
  CheckSecurity(config, problems);
  CheckProbes(config, problems);
  CheckReceivers(config, problems);
  CheckDetector(config.detector(), problems);
  CheckRange("retention", config.retention(), absl::Hours(1), absl::Hours(24 * 3660), problems);
  CheckRange("heartbeat_interval", config.heartbeat_interval(), absl::Seconds(1), absl::Minutes(10),
             problems);
  CheckRange("missing_after", config.missing_after(), absl::Seconds(2), absl::Hours(24), problems);
  CheckRange("reconnect_spread", config.reconnect_spread(), absl::ZeroDuration(), absl::Minutes(10),
             problems);
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(problems, "\n"));
}

absl::StatusOr<v1::ServerConfig> LoadServerConfig(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  v1::ServerConfig config;
  if (absl::Status status = ParseYaml(*text, path, &config, YamlZero::kIsRefused); !status.ok())
    return status;
  if (absl::Status status = CompleteServerConfig(config); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::string(status.message())));
  }
  return config;
}

}  // namespace weft
