// Pieces of tables that several nouns show. Pure.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "cli/output.h"
#include "google/protobuf/timestamp.pb.h"
#include "weft/v1/finding.pb.h"
#include "weft/v1/fleet.pb.h"
#include "weft/v1/maintenance.pb.h"

namespace weft::cli {

// InfinitePast when `set` is false.
absl::Time TimeOf(bool set, const google::protobuf::Timestamp& timestamp);

// "OK", "DEGRADED", …; coloured.
Cell StateCell(v1::NodeState state);
// "87%" of what is expected; "" when that is not known.
std::string PercentText(const v1::NodeStatus& status);
// "23.4 GB/s"; "" for 0.
std::string BandwidthText(double bytes_per_second);
// Best bandwidth and median latency among measurements; "" if there are none.
template <typename Measurements>
std::string BestBandwidthText(const Measurements& measurements) {
  double best = 0;
  for (const v1::Measurement& each : measurements) {
    const bool is_bandwidth = each.metric() == v1::METRIC_WRITE_BANDWIDTH ||
                              each.metric() == v1::METRIC_BUS_BANDWIDTH ||
                              each.metric() == v1::METRIC_COPY_BANDWIDTH;
    if (is_bandwidth && each.value() > best) best = each.value();
  }
  return BandwidthText(best);
}
std::string LatencyText(const v1::HistoryPoint& point);
// "yes" or "".
std::string YesText(bool yes);

}  // namespace weft::cli
