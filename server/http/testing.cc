#include "server/http/testing.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/http/api_routes.h"
#include "server/http/operations_routes.h"
#include "server/http/page_routes.h"
#include "store/sqlite/sqlite_store.h"

namespace weft::testing {
namespace {

constexpr time_t kReadSeconds = 20;

size_t AppendBody(char* data, size_t size, size_t count, void* into) {
  static_cast<std::string*>(into)->append(data, size * count);
  return size * count;
}

size_t AppendHeader(char* data, size_t size, size_t count, void* into) {
  const std::string line(data, size * count);
  const size_t colon = line.find(':');
  if (colon != std::string::npos) {
    (*static_cast<std::map<std::string, std::string>*>(into))[absl::AsciiStrToLower(line.substr(0, colon))] =
        std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return size * count;
}

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "the test's fleet cannot be made: %s\n", status.ToString().c_str());
  std::abort();
}

std::string Quoted(const std::string& argument) { return absl::StrCat("'", argument, "'"); }

Run SomeRun(const std::string& id, absl::Time time) {
  Run run;
  run.id = id;
  run.spec = {"fabric_write", FabricProbe{}};
  run.participants = {"id-a", "id-b"};
  run.cohort = "default";
  run.round = 1;
  run.plan_time = time;
  return run;
}

ResultAppend SomeResult(const std::string& node_id, uint32_t rank, double value) {
  Result result;
  result.run_id = "run-1";
  result.node_id = node_id;
  result.rank = rank;
  result.outcome = Outcome::kOk;
  Measurement measurement;
  measurement.value = value;
  measurement.device = "eth0";
  measurement.message_size_bytes = 1 << 20;
  result.measurements = {measurement};
  return {node_id, "epoch", {{1, result}}};
}

Episode SlowEpisode(absl::Time now) {
  Episode episode;
  episode.id = "episode-1";
  episode.finding.node_ids = {"id-b"};
  episode.finding.probe = "fabric_write";
  episode.finding.ratio = 0.5;
  episode.finding.observed = 50e6;
  episode.finding.expected = 100e6;
  episode.finding.confidence = 0.9;
  episode.finding.since = now - absl::Minutes(5);
  episode.finding.summary = "gpu-b writes at half of what is expected";
  episode.open_time = now - absl::Minutes(4);
  return episode;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "weft-http-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) std::abort();
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

ClientResponse Fetch(uint16_t port, absl::string_view target, const std::vector<std::string>& headers,
                     absl::string_view method) {
  ClientResponse response;
  CURL* curl = curl_easy_init();
  const std::string url = absl::StrCat("http://127.0.0.1:", port, target);
  const std::string verb(method);
  curl_slist* lines = nullptr;
  for (const std::string& header : headers) lines = curl_slist_append(lines, header.c_str());
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, 60L);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, lines);
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, verb.c_str());
  curl_easy_setopt(curl, CURLOPT_NOBODY, method == "HEAD" ? 1L : 0L);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, AppendBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &response.body);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, AppendHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &response.headers);
  if (curl_easy_perform(curl) == CURLE_OK) {
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &response.status);
  }
  curl_slist_free_all(lines);
  curl_easy_cleanup(curl);
  return response;
}

RawConnection::RawConnection(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval limit{kReadSeconds, 0};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  if (connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) closed_ = true;
}

RawConnection::~RawConnection() { close(fd_); }

bool RawConnection::Send(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool RawConnection::ReadSome(std::string& into) {
  char buffer[4096];
  const ssize_t got = recv(fd_, buffer, sizeof(buffer), 0);
  if (got > 0) into.append(buffer, static_cast<size_t>(got));
  if (got == 0 || (got < 0 && errno == ECONNRESET)) closed_ = true;
  return got > 0;
}

std::string RawConnection::ReadToEnd() {
  std::string text;
  while (ReadSome(text)) {
  }
  return text;
}

std::string RawConnection::ReadUntil(absl::string_view mark) {
  std::string text;
  while (text.find(mark.data(), 0, mark.size()) == std::string::npos && ReadSome(text)) {
  }
  return text;
}

bool IsInstalled(const std::string& program) {
  std::string ignored;
  return RunProgram({"which", program}, &ignored) == 0;
}

int RunProgram(const std::vector<std::string>& arguments, std::string* output) {
  const std::string command = absl::StrCat(absl::StrJoin(arguments, " ",
                                                         [](std::string* out, const std::string& argument) {
                                                           absl::StrAppend(out, Quoted(argument));
                                                         }),
                                           " 2>&1");
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return -1;
  char buffer[4096];
  for (size_t got; (got = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) output->append(buffer, got);
  const int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

ServedFleet::ServedFleet() {
  auto store = OpenSqliteStore({.path = folder_.path() + "/weft.db"});
  Check(store.status());
  store_ = *std::move(store);
  view_ = std::make_unique<FleetView>(clock_.Now());
  QueriesOptions queries_options;
  queries_options.version = "1.2.3";
  queries_ = std::make_unique<Queries>(*store_, *view_, clock_, queries_options);
  counters_ = std::make_unique<MetricCounters>(
      MetricCountersOptions{.probes = {"fabric_write"}, .receivers = {"pager"}});
  source_ = std::make_unique<MetricsSource>(
      *queries_, *store_, *view_, clock_,
      MetricsSourceOptions{"1.2.3", {{"fabric_write", absl::Minutes(15)}}, {"pager"}});
  Fill();
  Router router;
  AddApiRoutes(*queries_, router);
  AddOperationsRoutes({*source_, *counters_, *queries_,
                       [this] { return ready_ ? absl::OkStatus() : absl::UnavailableError("no store"); }},
                      router);
  AddPageRoutes(router);
  auto server = HttpServer::Listen({.address = "127.0.0.1:0"}, std::move(router));
  Check(server.status());
  server_ = *std::move(server);
  server_->Start();
}

ServedFleet::~ServedFleet() = default;

void ServedFleet::PutNode(const std::string& id, const std::string& hostname) {
  const absl::Time now = clock_.Now();
  NodeRecord record;
  record.node.id = id;
  record.node.hostname = hostname;
  record.node.labels = {{"rack", "r1"}};
  record.first_seen = now - absl::Hours(1);
  record.last_seen = now;
  Check(store_->PutNode(record));
  view_->SetConnected(id, {.last_seen = now});
}

void ServedFleet::Fill() {
  const absl::Time now = clock_.Now();
  PutNode("id-a", "gpu-a");
  PutNode("id-b", "gpu-b");
  PutNode("id-c", kMarkupHostname);
  Check(store_->PutRuns({SomeRun("run-1", now - absl::Minutes(1))}));
  // The store answers on its own thread; its destructor waits for what is queued.
  Check(store_->AppendResults(SomeResult("id-a", 0, 100e6), [](const auto& done) { Check(done.status()); }));
  Check(store_->AppendResults(SomeResult("id-b", 1, 50e6), [](const auto& done) { Check(done.status()); }));
  // A later write is committed after the earlier ones.
  DetectionCommit commit;
  commit.episodes = {SlowEpisode(now)};
  Check(store_->CommitDetection(commit));
  view_->SetLevels({{"id-a", "fabric_write", Metric::kWriteBandwidth, 100e6, 100e6, now},
                    {"id-b", "fabric_write", Metric::kWriteBandwidth, 50e6, 100e6, now}});
  counters_->CountRun("gpu-a", "fabric_write", Outcome::kOk, now);
  counters_->CountRun("gpu-b", "fabric_write", Outcome::kOk, now);
}

}  // namespace weft::testing
