#include "server/app/server_app.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/tls_files.h"
#include "base/version.h"
#include "base/worker.h"
#include "convert/convert.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "server/alert/standard_webhooks.h"
#include "server/api/fleet_view.h"
#include "server/api/queries.h"
#include "server/api/services.h"
#include "server/app/delivery_loop.h"
#include "server/app/detect_loop.h"
#include "server/app/node_keeper.h"
#include "server/app/plan_loop.h"
#include "server/app/port_watch.h"
#include "server/app/store_watch.h"
#include "server/auth/authorizer.h"
#include "server/http/api_routes.h"
#include "server/http/host_port.h"
#include "server/http/http_server.h"
#include "server/http/metrics.h"
#include "server/http/metrics_source.h"
#include "server/http/operations_routes.h"
#include "server/http/page_routes.h"
#include "server/ingest/agent_service.h"
#include "spdlog/spdlog.h"
#include "store/sqlite/sqlite_store.h"

namespace weft {
namespace {

constexpr int32_t kRetentionRowsAtOnce = 2000;
constexpr absl::Duration kStopWithin = absl::Seconds(5);

std::vector<ProbeSchedule> SchedulesOf(const v1::ServerConfig& config) {
  std::vector<ProbeSchedule> schedules;
  for (const v1::ProbePlan& plan : config.probes()) {
    ProbeSchedule schedule;
    schedule.planner.spec = *FromProto(plan.spec());  // checked with the configuration
    schedule.planner.period = FromProto(plan.period());
    schedule.planner.max_concurrent_runs = plan.max_concurrent_runs();
    schedule.planner.group_size = plan.group_size();
    schedule.deadline = FromProto(plan.deadline());
    schedule.cohort_label = plan.cohort_label();
    schedules.push_back(std::move(schedule));
  }
  return schedules;
}

DetectorOptions DetectorOptionsOf(const v1::DetectorConfig& config) {
  DetectorOptions options;
  options.slow_ratio = config.slow_ratio();
  options.recovered_ratio = config.recovered_ratio();
  options.slow_runs = config.slow_runs();
  options.recovered_runs = config.recovered_runs();
  options.baseline_runs = config.baseline_runs();
  return options;
}

std::vector<std::string> ReceiverNames(const v1::ServerConfig& config) {
  std::vector<std::string> names;
  for (const v1::ReceiverConfig& receiver : config.receivers()) names.push_back(receiver.name());
  return names;
}

std::map<std::string, absl::Duration> ProbePeriods(const v1::ServerConfig& config) {
  std::map<std::string, absl::Duration> periods;
  for (const v1::ProbePlan& plan : config.probes()) periods[plan.spec().name()] = FromProto(plan.period());
  return periods;
}

std::vector<std::string> ProbeNames(const v1::ServerConfig& config) {
  std::vector<std::string> names;
  for (const v1::ProbePlan& plan : config.probes()) names.push_back(plan.spec().name());
  return names;
}

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

// A node is stale when it missed several rounds of the slowest probe.
absl::Duration StaleAfter(const v1::ServerConfig& config) {
  absl::Duration longest = absl::Seconds(20);
  for (const auto& [probe, period] : ProbePeriods(config)) longest = std::max(longest, period);
  return 4 * longest;
}

absl::StatusOr<std::vector<Receiver>> ReadReceivers(const v1::ServerConfig& config) {
  std::vector<Receiver> receivers;
  for (const v1::ReceiverConfig& from : config.receivers()) {
    absl::StatusOr<std::string> text = ReadFile(from.secret_file());
    if (!text.ok()) return text.status();
    absl::StatusOr<std::string> secret = ParseWebhookSecret(*text);
    if (!secret.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("receiver ", from.name(), ": ", std::string(secret.status().message())));
    }
    Receiver receiver{from.name(), from.url(), *std::move(secret)};
    if (absl::Status status = ValidateReceiver(receiver); !status.ok()) return status;
    receivers.push_back(std::move(receiver));
  }
  return receivers;
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ReadCredentials(const v1::ServerConfig& config) {
  if (config.insecure()) return grpc::InsecureServerCredentials();
  absl::StatusOr<TlsMaterial> material =
      ReadTlsFiles(config.tls().certificate_file(), config.tls().key_file(), config.tls().ca_file());
  if (!material.ok()) return material.status();
  return MakeServerCredentials(*material);
}

// gRPC takes a lot for an address: without a port it means 443, with one too large another.
absl::Status CheckAddress(absl::string_view key, const std::string& address) {
  const std::optional<HostPort> parsed = ParseHostPort(address);
  if (parsed && !parsed->host.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(key, " \"", address, "\" is not HOST:PORT, e.g. 0.0.0.0:7443 or [::]:7443"));
}

// Holds the data folder for this process; two servers on one database would each plan and notify.
absl::StatusOr<int> LockFolder(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/lock");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    close(fd);
    return absl::FailedPreconditionError(absl::StrCat("another weft-server uses ", folder,
                                                      "; stop it or give this one a data_dir of its own"));
  }
  return fd;
}

// The server's half of a pair that must fit the agent's keepalive (60 s): see agent/session.
void SetChannelArguments(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 120'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, 30 * 60'000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 16);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 16 << 10);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(4 << 20);
}

}  // namespace

struct ServerApp::Parts {
  Parts(const v1::ServerConfig& from, Clock& with) : config(from), clock(with), view(with.Now()) {}
  ~Parts();

  absl::Status Open();
  void Wire();
  absl::Status Recover();
  absl::Status Listen();
  void StartLoops();
  void OnAgentEvent(AgentEvent event);
  absl::Duration DeleteOld();
  absl::Status Ready() const;
  absl::Status BuryOrphanDeliveries();

  const v1::ServerConfig config;
  Clock& clock;
  int lock_fd = -1;
  std::vector<Receiver> receivers;
  std::shared_ptr<grpc::ServerCredentials> credentials;
  FleetView view;
  AgentStreams streams;
  Mutex outbox_mutex;
  std::unique_ptr<Store> store;
  std::unique_ptr<MetricCounters> counters;
  std::unique_ptr<PlanLoop> plan_loop;
  std::unique_ptr<DetectLoop> detect_loop;
  std::vector<std::unique_ptr<DeliveryLoop>> delivery_loops;
  std::unique_ptr<NodeKeeper> node_keeper;
  std::unique_ptr<Worker> retention;
  std::unique_ptr<Queries> queries;
  std::unique_ptr<MetricsSource> metrics_source;
  std::unique_ptr<OperatorServices> operator_services;
  std::unique_ptr<AgentService> agent_service;
  std::unique_ptr<grpc::Server> grpc_server;
  std::unique_ptr<HttpServer> http_server;
  std::unique_ptr<PortWatch> port_watch;
  std::unique_ptr<StoreWatch> store_watch;
  int grpc_port = 0;
  std::atomic<bool> running = false;
};

absl::Status ServerApp::Parts::Open() {
  if (absl::Status status = MakeFolders(config.data_dir()); !status.ok()) return status;
  absl::StatusOr<int> lock = LockFolder(config.data_dir());
  if (!lock.ok()) return lock.status();
  lock_fd = *lock;
  absl::StatusOr<std::vector<Receiver>> read = ReadReceivers(config);
  if (!read.ok()) return read.status();
  receivers = *std::move(read);
  absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> made = ReadCredentials(config);
  if (!made.ok()) return made.status();
  credentials = *std::move(made);
  SqliteStoreOptions options;
  options.path = absl::StrCat(config.data_dir(), "/weft.db");
  absl::StatusOr<std::unique_ptr<Store>> opened = OpenSqliteStore(options);
  if (!opened.ok()) return opened.status();
  store = *std::move(opened);
  return absl::OkStatus();
}

void ServerApp::Parts::Wire() {
  MetricCountersOptions counter_options;
  counter_options.probes = ProbeNames(config);
  counter_options.receivers = ReceiverNames(config);
  counters = std::make_unique<MetricCounters>(counter_options);
  plan_loop = std::make_unique<PlanLoop>(SchedulesOf(config), FromProto(config.reconnect_spread()), *store,
                                         clock, streams, *counters);
  node_keeper = std::make_unique<NodeKeeper>(*store, clock, view);
  for (const Receiver& receiver : receivers) {
    delivery_loops.push_back(
        std::make_unique<DeliveryLoop>(receiver, *store, clock, outbox_mutex, *counters));
  }
  DetectLoopOptions detect_options;
  detect_options.liveness.missing_after = FromProto(config.missing_after());
  detect_options.liveness.reconnect_spread = FromProto(config.reconnect_spread());
  detect_options.liveness.server_start = clock.Now();
  detect_options.receivers = ReceiverNames(config);
  detect_options.external_url = config.external_url();
  detect_options.on_committed = [this](const std::set<std::string>& suspects) {
    plan_loop->SetSuspects(suspects);
    for (const auto& loop : delivery_loops) loop->Wake();
  };
  detect_loop =
      std::make_unique<DetectLoop>(std::move(detect_options), Detector(DetectorOptionsOf(config.detector())),
                                   *store, clock, outbox_mutex, view, *counters);
  store_watch = std::make_unique<StoreWatch>(*store, clock);
  retention = std::make_unique<Worker>("retention", clock, [this] { return DeleteOld(); });

  QueriesOptions query_options;
  query_options.version = std::string(Version());
  query_options.stale_after = StaleAfter(config);
  query_options.on_windows_changed = [this] { detect_loop->Wake(); };
  query_options.on_node_removed = [this](const std::string& id, const std::string& note) {
    spdlog::info("{} ({})", note, id);
    detect_loop->NoteRemoved(id, note);
  };
  queries = std::make_unique<Queries>(*store, view, clock, query_options);
  MetricsSourceOptions metrics_options;
  metrics_options.version = std::string(Version());
  metrics_options.probe_periods = ProbePeriods(config);
  metrics_options.receivers = ReceiverNames(config);
  metrics_source = std::make_unique<MetricsSource>(*queries, *store, view, clock, metrics_options);

  operator_services = std::make_unique<OperatorServices>(*queries);
  AgentServiceOptions agent_options;
  agent_options.heartbeat_interval = FromProto(config.heartbeat_interval());
  agent_options.reconnect_spread = FromProto(config.reconnect_spread());
  agent_options.server_version = std::string(Version());
  agent_service = std::make_unique<AgentService>(
      agent_options, *store, clock, streams, [this](AgentEvent event) { OnAgentEvent(std::move(event)); });
}

absl::Status ServerApp::Parts::BuryOrphanDeliveries() {
  absl::StatusOr<std::vector<Delivery>> pending = store->PendingDeliveries();
  if (!pending.ok()) return pending.status();
  for (Delivery& delivery : *pending) {
    const bool known = std::any_of(receivers.begin(), receivers.end(), [&](const Receiver& receiver) {
      return receiver.name == delivery.receiver;
    });
    if (known) continue;
    spdlog::warn("notification {} given up: receiver {} is no longer configured", delivery.id,
                 delivery.receiver);
    delivery.state = DeliveryState::kDead;
    delivery.last_error = "the receiver is no longer configured";
    if (absl::Status status = store->UpdateDelivery(delivery); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ServerApp::Parts::Recover() {
  if (absl::Status status = BuryOrphanDeliveries(); !status.ok()) return status;
  if (absl::Status status = plan_loop->Recover(); !status.ok()) return status;
  return detect_loop->Recover();
}

absl::Status ServerApp::Parts::Listen() {
  Router router;
  AddApiRoutes(*queries, router);
  AddOperationsRoutes({*metrics_source, *counters, *queries, [this] { return Ready(); }}, router);
  AddPageRoutes(router);
  HttpServerOptions http_options;
  http_options.address = config.http_address();
  absl::StatusOr<std::unique_ptr<HttpServer>> http = HttpServer::Listen(http_options, std::move(router));
  if (!http.ok()) return http.status();
  http_server = *std::move(http);

  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  SetChannelArguments(builder);
  builder.AddListeningPort(config.grpc_address(), credentials, &grpc_port);
  operator_services->Register(builder);
  builder.RegisterService(agent_service.get());
  grpc_server = builder.BuildAndStart();
  if (grpc_server == nullptr || grpc_port == 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", config.grpc_address(),
                                               ": is the port taken, or the address not this machine's?"));
  }
  port_watch = std::make_unique<PortWatch>(HostOf(config.grpc_address()), grpc_port, clock);
  return absl::OkStatus();
}

void ServerApp::Parts::StartLoops() {
  plan_loop->Start();
  node_keeper->Start();
  detect_loop->Start();
  for (const auto& loop : delivery_loops) loop->Start();
  retention->Start();
  store_watch->Start();
  http_server->Start();
  port_watch->Start();
  running = true;
}

ServerApp::Parts::~Parts() {
  running = false;
  if (port_watch != nullptr) port_watch->Stop();
  if (http_server != nullptr) http_server->Stop();
  streams.Drain();
  if (grpc_server != nullptr)
    grpc_server->Shutdown(std::chrono::system_clock::now() + absl::ToChronoSeconds(kStopWithin));
  if (store_watch != nullptr) store_watch->Stop();
  if (retention != nullptr) retention->Stop();
  for (const auto& loop : delivery_loops) loop->Stop();
  if (detect_loop != nullptr) detect_loop->Stop();
  if (plan_loop != nullptr) plan_loop->Stop();
  if (node_keeper != nullptr) node_keeper->Stop();
  grpc_server.reset();
  // The store's writer may still call back into streams and loops: it ends before they do.
  store.reset();
  if (lock_fd >= 0) close(lock_fd);
}

// From gRPC's and the store's threads.
void ServerApp::Parts::OnAgentEvent(AgentEvent event) {
  const std::string& id = event.node_id;
  if (const auto* connected = std::get_if<AgentConnected>(&event.what)) {
    view.SetConnected(id, {connected->record.last_seen, connected->record.clock_offset,
                           connected->record.spool_lost_records, 0});
    detect_loop->Wake();
  } else if (const auto* beat = std::get_if<AgentHeartbeat>(&event.what)) {
    view.SetConnected(
        id, {beat->received, beat->clock_offset, beat->spool_lost_records, beat->spool_damaged_files});
    return;
  } else if (std::holds_alternative<AgentGone>(event.what)) {
    const auto all = view.Connected();
    const auto presence = all.find(id);
    if (presence != all.end()) node_keeper->NoteGone(id, presence->second);
    view.SetDisconnected(id);
    detect_loop->Wake();
  } else if (const auto* refused = std::get_if<RecordsRefused>(&event.what)) {
    view.AddRejected(v1::RejectReason_Name(refused->reason), refused->records);
    return;
  } else if (const auto* repeated = std::get_if<RecordsRepeated>(&event.what)) {
    view.AddDuplicates(repeated->records);
    return;
  } else if (std::holds_alternative<ResultStored>(event.what)) {
    detect_loop->Wake();
  }
  plan_loop->Push(std::move(event));
}

absl::Duration ServerApp::Parts::DeleteOld() {
  const absl::StatusOr<uint64_t> deleted =
      store->DeleteOlderThan(clock.Now() - FromProto(config.retention()), kRetentionRowsAtOnce);
  if (!deleted.ok()) {
    spdlog::warn("retention waits: {}", std::string(deleted.status().message()));
    return absl::Minutes(1);
  }
  return *deleted > 0 ? absl::Milliseconds(100) : absl::Minutes(10);
}

absl::Status ServerApp::Parts::Ready() const {
  if (!running) return absl::UnavailableError("starting or stopping");
  if (port_watch->failed()) return absl::UnavailableError("the gRPC port does not answer");
  return store_watch->status();
}

ServerApp::ServerApp(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
ServerApp::~ServerApp() = default;

absl::StatusOr<std::unique_ptr<ServerApp>> ServerApp::Start(const v1::ServerConfig& config, Clock& clock) {
  auto parts = std::make_unique<Parts>(config, clock);
  if (absl::Status status = parts->Open(); !status.ok()) return status;
  parts->Wire();
  if (absl::Status status = parts->Recover(); !status.ok()) return status;
  if (absl::Status status = parts->Listen(); !status.ok()) return status;
  parts->StartLoops();
  return std::unique_ptr<ServerApp>(new ServerApp(std::move(parts)));
}

std::string ServerApp::grpc_address() const {
  const std::string& address = parts_->config.grpc_address();
  return absl::StrCat(HostOf(address), ":", parts_->grpc_port);
}

absl::Status ServerApp::Check(const v1::ServerConfig& config) {
  for (const auto& [key, address] : {std::pair("grpc_address", &config.grpc_address()),
                                     std::pair("http_address", &config.http_address())}) {
    if (absl::Status status = CheckAddress(key, *address); !status.ok()) return status;
  }
  if (absl::Status status = ReadCredentials(config).status(); !status.ok()) return status;
  return ReadReceivers(config).status();
}

std::string ServerApp::http_address() const { return parts_->http_server->address(); }

bool ServerApp::failed() const { return parts_->port_watch->failed(); }

}  // namespace weft
