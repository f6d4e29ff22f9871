// What the tests of this folder share: a folder that goes away, a client, and a small fleet that is really
// stored and really served. Tests only.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "server/api/fleet_view.h"
#include "server/api/queries.h"
#include "server/http/http_server.h"
#include "server/http/metrics.h"
#include "server/http/metrics_source.h"
#include "store/store.h"

namespace weft::testing {

// Removed with all in it at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct ClientResponse {
  long status = 0;                             // 0: no answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // as sent, compressed if it was
};

// One request by libcurl to 127.0.0.1. `headers` are whole lines.
ClientResponse Fetch(uint16_t port, absl::string_view target, const std::vector<std::string>& headers = {},
                     absl::string_view method = "GET");

// A plain TCP connection for what no HTTP library would send. Reads give up after 20 s.
class RawConnection {
 public:
  explicit RawConnection(uint16_t port);
  ~RawConnection();
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;
  // False when the peer is gone.
  bool Send(absl::string_view bytes);
  // All that comes until the peer closes, or the time is over.
  std::string ReadToEnd();
  // What comes up to and including `mark`; less if the peer closes before.
  std::string ReadUntil(absl::string_view mark);
  bool closed_by_peer() const { return closed_; }

 private:
  bool ReadSome(std::string& into);
  int fd_ = -1;
  bool closed_ = false;
};

// Runs a program with its output in `output`; -1 when it is not installed, else its exit status.
int RunProgram(const std::vector<std::string>& arguments, std::string* output);
bool IsInstalled(const std::string& program);

inline constexpr char kMarkupHostname[] = "<img src=x onerror=alert(1)>";

// Nodes "gpu-a" (ok), "gpu-b" (slow, with an open finding) and one called kMarkupHostname, in a SQLite store,
// with everything that a server has over HTTP, on a free port.
class ServedFleet {
 public:
  ServedFleet();
  ~ServedFleet();

  uint16_t port() const { return server_->port(); }
  Store& store() { return *store_; }
  FleetView& view() { return *view_; }
  MetricCounters& counters() { return *counters_; }
  // Makes /readyz fail.
  void SetReady(bool ready) { ready_ = ready; }

 private:
  void Fill();
  void PutNode(const std::string& id, const std::string& hostname);

  TemporaryFolder folder_;
  Clock& clock_ = Clock::Real();
  std::unique_ptr<Store> store_;
  std::unique_ptr<FleetView> view_;
  std::unique_ptr<Queries> queries_;
  std::unique_ptr<MetricCounters> counters_;
  std::unique_ptr<MetricsSource> source_;
  std::atomic<bool> ready_{true};
  std::unique_ptr<HttpServer> server_;
};

}  // namespace weft::testing
