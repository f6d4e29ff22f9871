#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "agent/app/app.h"
#include "agent/app/options.h"
#include "base/version.h"

namespace {

struct CommandLine {
  weft::AgentFlags flags;
  bool check_config = false;
};

void Declare(CLI::App& cli, CommandLine* line) {
  weft::AgentFlags& flags = line->flags;
  cli.add_option("--config", flags.config_file, "configuration file (YAML)");
  cli.add_flag("--check-config", line->check_config, "check the configuration and exit");
  cli.set_version_flag("--version", absl::StrCat("weft-agent ", weft::Version()));
  cli.add_option("--server", flags.server, "server's gRPC address, host:port");
  cli.add_option("--state-dir", flags.state_dir, "folder for node id and spool");
  cli.add_option("--hostname", flags.hostname, "instead of the kernel's hostname");
  cli.add_option("--label", flags.labels, "site label key=value; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  cli.add_flag("--insecure", flags.insecure, "plain text and no identity: for trials on one machine");
  cli.add_option("--tls-cert", flags.tls_certificate_file, "own certificate chain (PEM)");
  cli.add_option("--tls-key", flags.tls_key_file, "own private key (PEM)");
  cli.add_option("--tls-ca", flags.tls_ca_file, "authorities that the server must be signed by (PEM)");
}

// 2: what was asked cannot be understood. 1: it cannot be done here.
int Fail(const absl::Status& status, int code) {
  for (const absl::string_view line : absl::StrSplit(status.message(), '\n'))
    std::fprintf(stderr, "weft-agent: %s\n", std::string(line).c_str());
  return code;
}

// Signals are blocked in all threads and taken here, so that no handler is ever needed.
sigset_t BlockSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return set;
}

int RunAgent(const weft::v1::AgentConfig& config) {
  const sigset_t signals = BlockSignals();
  absl::StatusOr<std::unique_ptr<weft::AgentApp>> app = weft::AgentApp::Make(config);
  if (!app.ok()) return Fail(app.status(), 1);
  spdlog::info("node {}: weft-agent {} for server {}", (*app)->node_id(), std::string(weft::Version()),
               config.server_address());
  (*app)->Start();
  int number = 0;
  while (sigwait(&signals, &number) != 0) {
  }
  spdlog::info("stopping on signal {}", number);
  (*app)->Stop();
  app->reset();
  spdlog::shutdown();
  // gRPC's threads still run; destructors of static objects must not pull the ground from under them.
  std::_Exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  // What gRPC would write to standard error is said by the session, once per cause. Who looks for a fault in
  // gRPC sets another level.
  setenv("GRPC_VERBOSITY", "NONE", 0);
  // Debian builds Abseil with the detector on; it costs memory and is for debugging.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  spdlog::set_default_logger(spdlog::stderr_logger_mt("weft-agent"));
  spdlog::flush_on(spdlog::level::info);
  CLI::App cli("Weft agent: runs fabric probes for a weft-server");
  CommandLine line;
  Declare(cli, &line);
  CLI11_PARSE(cli, argc, argv);
  absl::StatusOr<weft::v1::AgentConfig> config = weft::LoadAgentConfig(line.flags);
  if (!config.ok()) return Fail(config.status(), 2);
  const absl::Status checked = weft::CheckAgentConfig(&*config);
  if (!checked.ok()) return Fail(checked, 2);
  if (absl::Status status = weft::CheckAgentFiles(*config); !status.ok()) return Fail(status, 1);
  if (!line.check_config) return RunAgent(*config);
  std::printf("configuration is good\n");
  return 0;
}
