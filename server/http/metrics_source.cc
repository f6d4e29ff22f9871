#include "server/http/metrics_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/string_view.h"
#include "base/file.h"
#include "base/text.h"
#include "spdlog/spdlog.h"

namespace weft {
namespace {

// Windows on the page; a site with more of them open at once has other worries.
constexpr int32_t kMaxWindows = 1000;

bool Log(absl::string_view what, const absl::Status& status) {
  if (!status.ok()) {
    spdlog::warn("metrics go without {}: {}", std::string(what), EscapeControl(status.ToString()));
  }
  return status.ok();
}

}  // namespace

MetricsSource::MetricsSource(Queries& queries, Store& store, const FleetView& view, Clock& clock,
                             MetricsSourceOptions options)
    : queries_(queries), store_(store), view_(view), clock_(clock), options_(std::move(options)) {}

bool MetricsSource::ReadNodes(MetricsSnapshot& snapshot) {
  auto nodes = queries_.AllNodes();
  if (nodes.ok()) snapshot.nodes = *std::move(nodes);
  return Log("nodes", nodes.status());
}

bool MetricsSource::ReadFindings(MetricsSnapshot& snapshot) {
  auto episodes = store_.OpenEpisodes();
  if (episodes.ok()) snapshot.open_episodes = *std::move(episodes);
  return Log("findings", episodes.status());
}

bool MetricsSource::ReadWindows(MetricsSnapshot& snapshot) {
  v1::ListMaintenanceWindowsRequest request;
  request.set_page_size(kMaxWindows);
  auto windows = queries_.ListMaintenanceWindows(request);
  if (windows.ok()) snapshot.windows = {windows->windows().begin(), windows->windows().end()};
  return Log("maintenance windows", windows.status());
}

bool MetricsSource::ReadStore(MetricsSnapshot& snapshot) {
  auto stats = store_.Stats();
  if (stats.ok()) snapshot.store = *stats;
  return Log("the store's sizes", stats.status());
}

bool MetricsSource::ReadDetectorLag(MetricsSnapshot& snapshot) {
  auto cursor = store_.DetectionCursor();
  if (!cursor.ok()) return Log("the detector's lag", cursor.status());
  auto next = store_.ReadResults(*cursor, 1);
  if (!next.ok()) return Log("the detector's lag", next.status());
  snapshot.detector_lag = absl::ZeroDuration();
  if (!next->empty()) {
    snapshot.detector_lag = std::max(absl::ZeroDuration(), snapshot.now - next->front().plan_time);
  }
  return true;
}

bool MetricsSource::ReadOutbox(MetricsSnapshot& snapshot) {
  auto pending = store_.PendingDeliveries();
  if (!pending.ok()) return Log("the outbox", pending.status());
  for (const std::string& receiver : options_.receivers) snapshot.webhook_queue[receiver] = 0;
  for (const Delivery& delivery : *pending) ++snapshot.webhook_queue[delivery.receiver];
  return true;
}

MetricsSnapshot MetricsSource::Collect() {
  MetricsSnapshot snapshot;
  snapshot.now = clock_.Now();
  snapshot.version = options_.version;
  snapshot.start_time = view_.start_time();
  snapshot.resident_bytes = ResidentBytes();
  snapshot.probe_periods = options_.probe_periods;
  snapshot.levels = *view_.Levels();
  snapshot.agents_connected = view_.ConnectedCount();
  snapshot.detector_lag_results = view_.DetectorLag();
  const IngestCounters ingest = view_.Counters();
  snapshot.rejected = ingest.rejected;
  snapshot.duplicates = ingest.duplicates;
  for (const auto& [id, agent] : view_.Connected()) {
    snapshot.lost_records += agent.spool_lost_records;
    snapshot.damaged_files += agent.spool_damaged_files;
  }
  snapshot.sources["nodes"] = ReadNodes(snapshot);
  snapshot.sources["findings"] = ReadFindings(snapshot);
  snapshot.sources["windows"] = ReadWindows(snapshot);
  snapshot.sources["store"] = ReadStore(snapshot);
  snapshot.sources["detector"] = ReadDetectorLag(snapshot);
  snapshot.sources["outbox"] = ReadOutbox(snapshot);
  return snapshot;
}

}  // namespace weft
