#include "agent/app/app.h"

#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "agent/inventory/gpu/node_gpus.h"
#include "agent/inventory/identity.h"
#include "agent/inventory/inventory.h"
#include "base/file.h"
#include "base/id.h"
#include "base/tls_files.h"
#include "base/version.h"
#include "convert/convert.h"

namespace weft {
namespace {

const char kRoot[] = "";  // of /sys and /proc

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(const v1::AgentConfig& config) {
  if (config.insecure()) return grpc::InsecureChannelCredentials();
  absl::StatusOr<TlsMaterial> tls =
      ReadTlsFiles(config.tls().certificate_file(), config.tls().key_file(), config.tls().ca_file());
  if (!tls.ok()) return tls.status();
  return grpc::SslCredentials({tls->ca, tls->private_key, tls->certificate_chain});
}

}  // namespace

absl::Status CheckAgentFiles(const v1::AgentConfig& config) { return MakeCredentials(config).status(); }

namespace {

InventoryOptions MakeInventoryOptions(const v1::AgentConfig& config) {
  return {.root = kRoot,
          .hostname = config.hostname(),
          .labels = {config.labels().begin(), config.labels().end()},
          .agent_version = std::string(Version())};
}

std::vector<std::string> ProbeEnvironment(const v1::AgentConfig& config) {
  std::vector<std::string> environment;
  for (const auto& [name, value] : config.probe_environment())
    environment.push_back(absl::StrCat(name, "=", value));
  if (!config.nccl_library().empty())
    environment.push_back(absl::StrCat("WEFT_NCCL_LIBRARY=", config.nccl_library()));
  return environment;
}

// Describes the node anew each time, and knows whether its GPUs have changed since. One thread.
class NodeDescriber {
 public:
  NodeDescriber(std::string node_id, InventoryOptions options, const GpuWatch& gpus)
      : node_id_(std::move(node_id)), options_(std::move(options)), gpus_(gpus) {}

  v1::Node Describe() {
    const GpuWatch::Facts facts = gpus_.facts();
    told_ = facts.revision;
    v1::Node node;
    ToProto(ReadInventory(node_id_, options_), &node);
    AddGpuReport(facts.report, facts.source, &node);
    return node;
  }
  std::optional<v1::Node> DescribeChange() {
    if (gpus_.revision() == told_) return std::nullopt;
    return Describe();
  }

 private:
  const std::string node_id_;
  const InventoryOptions options_;
  const GpuWatch& gpus_;
  uint64_t told_ = 0;
};

std::map<std::string, uint64_t> NicRates(const InventoryOptions& options) {
  std::map<std::string, uint64_t> rates;
  for (const Nic& nic : ReadInventory("", options).nics) rates[nic.name] = nic.rate_bytes_per_second;
  return rates;
}

std::vector<std::string> GpuReaderEnvironment(const v1::AgentConfig& config) {
  std::vector<std::string> environment = {"LC_ALL=C"};
  if (!config.nvml_library().empty())
    environment.push_back(absl::StrCat("WEFT_NVML_LIBRARY=", config.nvml_library()));
  return environment;
}

}  // namespace

absl::StatusOr<double> ReadEmulatedRate(const std::string& path) {
  if (path.empty()) return 0;
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  double rate = 0;
  const bool good =
      absl::SimpleAtod(absl::StripAsciiWhitespace(*text), &rate) && std::isfinite(rate) && rate > 0;
  if (!good)
    return absl::InvalidArgumentError(
        absl::StrCat("emulated_link_file ", path, " does not hold one rate in bytes per second above zero"));
  return rate;
}

absl::StatusOr<std::unique_ptr<AgentApp>> AgentApp::Make(const v1::AgentConfig& config) {
  std::unique_ptr<AgentApp> app(new AgentApp);
  const absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> credentials = MakeCredentials(config);
  if (!credentials.ok()) return credentials.status();
  const absl::Status subreaper = Reaper::BecomeSubreaper();
  if (!subreaper.ok()) return subreaper;
  absl::StatusOr<std::string> id = LoadOrMakeNodeId(config.state_dir(), ReadMachineFingerprint(kRoot));
  if (!id.ok()) return id.status();
  app->node_id_ = *std::move(id);
  absl::StatusOr<std::unique_ptr<Spool>> spool = Spool::Open(
      {.folder = config.state_dir() + "/spool", .max_bytes = config.spool_bytes(), .segment_bytes = 0});
  if (!spool.ok()) return spool.status();
  app->spool_ = *std::move(spool);
  const std::string probe_dir = config.probe_dir().empty() ? OwnFolder() : config.probe_dir();
  app->runner_ = std::make_unique<ProbeRunner>(
      ProbeRunner::Options{.probe_dir = probe_dir, .environment = ProbeEnvironment(config)}, app->reaper_);
  app->gpu_watch_ = std::make_unique<GpuWatch>(
      GpuWatch::Options{.executable = absl::StrCat(probe_dir, "/weft-gpu-inventory"),
                        .environment = GpuReaderEnvironment(config)},
      app->reaper_);
  const InventoryOptions inventory = MakeInventoryOptions(config);
  app->idle_ = std::make_unique<IdleProof>(
      IdleProof::Options{.root = kRoot, .nic_rates = [inventory] { return NicRates(inventory); }},
      *app->gpu_watch_);
  const auto describer = std::make_shared<NodeDescriber>(app->node_id_, inventory, *app->gpu_watch_);
  app->session_ = std::make_unique<AgentSession>(
      AgentSession::Options{.node_id = app->node_id_,
                            .boot_id = absl::StrCat(ReadBootId(kRoot), "-", RandomHex(4)),
                            .reconnect = {.seed = std::random_device{}()}},
      AgentSession::Parts{
          .channel = MakeAgentChannel(config.server_address(), *credentials),
          .spool = app->spool_.get(),
          .runner = app->runner_.get(),
          .clock = &Clock::Real(),
          .describe_node = [describer] { return describer->Describe(); },
          .emulated_rate = [path = config.emulated_link_file()] { return ReadEmulatedRate(path); },
          .describe_change = [describer] { return describer->DescribeChange(); },
          .idle = app->idle_.get(),
          .transport = {.root = kRoot, .promise = config.fabric()}});
  return app;
}

void AgentApp::Start() {
  gpu_watch_->Start();
  session_->Start();
}

void AgentApp::Stop() {
  session_->Stop();
  gpu_watch_->Stop();
}

}  // namespace weft
