// weft-server: flags → checked configuration → ServerApp.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>

#include "absl/synchronization/mutex.h"
#include "base/version.h"
#include "server/app/config.h"
#include "server/app/server_app.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

namespace weft {
namespace {

// Blocks the signals that end the process in all threads to come; Wait takes them one by one.
class StopSignals {
 public:
  StopSignals() {
    sigemptyset(&set_);
    for (const int signal : {SIGTERM, SIGINT}) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of the write, as a full disk is
  }
  // True when a signal came within a second.
  bool Wait() {
    const timespec second{1, 0};
    return sigtimedwait(&set_, nullptr, &second) > 0;
  }
  // The next signal ends the process at once: everything acknowledged is on disk already.
  void Release() { pthread_sigmask(SIG_UNBLOCK, &set_, nullptr); }

 private:
  sigset_t set_;
};

int Fail(const absl::Status& status) {
  std::cerr << "weft-server: " << std::string(status.message()) << "\n";
  return 1;
}

int Run(const v1::ServerConfig& config) {
  StopSignals signals;
  absl::StatusOr<std::unique_ptr<ServerApp>> app = ServerApp::Start(config, Clock::Real());
  if (!app.ok()) return Fail(app.status());
  spdlog::info("weft-server {} ready: gRPC {}, page http://{}/", std::string(Version()),
               (*app)->grpc_address(), (*app)->http_address());
  bool failed = false;
  while (!signals.Wait() && !failed) failed = (*app)->failed();
  spdlog::info("stopping");
  signals.Release();
  app->reset();
  return failed ? Fail(absl::InternalError(
                      "the gRPC port no longer accepts connections; start the server again"))
                : 0;
}

int Main(int argc, char** argv) {
  // Debian builds Abseil with a lock-order graph behind every Mutex; gRPC pays for it with each call.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  spdlog::set_default_logger(spdlog::stderr_color_mt("weft-server"));
  CLI::App cli("weft-server plans probes, stores results, finds what is slow and tells who must know.");
  std::string config_file;
  bool check_only = false;
  cli.add_option("--config", config_file, "configuration file (YAML, see docs/CONFIG.md)")->required();
  cli.add_flag("--check-config", check_only, "check the configuration and exit");
  cli.set_version_flag("--version", "weft-server " + std::string(Version()));
  try {
    cli.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return cli.exit(error) == 0 ? 0 : 2;
  }
  const absl::StatusOr<v1::ServerConfig> config = LoadServerConfig(config_file);
  if (!config.ok()) return Fail(config.status());
  if (absl::Status status = ServerApp::Check(*config); !status.ok()) return Fail(status);
  if (check_only) {
    std::cout << config_file << ": ok\n";
    return 0;
  }
  return Run(*config);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) { return weft::Main(argc, argv); }
