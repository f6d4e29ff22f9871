// Reads at each scrape what /metrics shows of nodes, findings, store and outbox.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"
#include "server/api/fleet_view.h"
#include "server/api/queries.h"
#include "server/http/metrics.h"
#include "store/store.h"

namespace weft {

struct MetricsSourceOptions {
  std::string version;
  std::map<std::string, absl::Duration> probe_periods;  // by probe name, from the configuration
  std::vector<std::string> receivers;                   // from the configuration
};

// Thread-safe; calls block on the store.
class MetricsSource {
 public:
  // All references must outlive this.
  MetricsSource(Queries& queries, Store& store, const FleetView& view, Clock& clock,
                MetricsSourceOptions options);

  // Never fails as a whole: a part that cannot be read is left empty and marked in `sources`.
  MetricsSnapshot Collect();

 private:
  bool ReadNodes(MetricsSnapshot& snapshot);
  bool ReadFindings(MetricsSnapshot& snapshot);
  bool ReadWindows(MetricsSnapshot& snapshot);
  bool ReadStore(MetricsSnapshot& snapshot);
  bool ReadDetectorLag(MetricsSnapshot& snapshot);
  bool ReadOutbox(MetricsSnapshot& snapshot);

  Queries& queries_;
  Store& store_;
  const FleetView& view_;
  Clock& clock_;
  const MetricsSourceOptions options_;
};

}  // namespace weft
