// What monitoring asks of the server: /metrics, /sd/prometheus, /healthz, /readyz.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/http/metrics.h"
#include "server/http/metrics_source.h"
#include "server/http/router.h"
#include "weft/v1/fleet.pb.h"

namespace weft {

// What Prometheus is to scrape, as HTTP service discovery wants it: the server itself at `host`, the name by
// which the client reached it (left out if it is no HOST:PORT), and each node whose agent reports the version
// or label "metrics_address" as HOST:PORT; an unspecified host there (0.0.0.0, [::]) means the node's
// hostname. Pure. "[]" when there is nothing.
std::string DiscoveryJson(absl::string_view host, const std::vector<v1::NodeStatus>& nodes);

struct OperationsRoutes {
  MetricsSource& source;  // all references outlive the router
  MetricCounters& counters;
  Queries& queries;
  // OK once the server does its whole job (store open, loops running); any thread, quick.
  std::function<absl::Status()> ready;
};

// /healthz says that the process answers, /readyz 503 with the reason while `ready` fails.
void AddOperationsRoutes(const OperationsRoutes& parts, Router& router);

}  // namespace weft
