#include "cli/text_of.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/units.h"

namespace weft::cli {

absl::Time TimeOf(bool set, const google::protobuf::Timestamp& timestamp) {
  if (!set) return absl::InfinitePast();
  return absl::FromUnixSeconds(timestamp.seconds()) + absl::Nanoseconds(timestamp.nanos());
}

Cell StateCell(v1::NodeState state) {
  const std::string name = ShortName(v1::NodeState_Name(state), "NODE_STATE_");
  if (state == v1::NODE_STATE_OK) return Cell(name, Color::kGood);
  return Cell(name, state == v1::NODE_STATE_DEGRADED ? Color::kBad : Color::kDoubt);
}

std::string PercentText(const v1::NodeStatus& status) {
  if (!(status.expected_bandwidth_bytes_per_second() > 0)) return "";
  return absl::StrFormat("%.0f%%", status.bandwidth_ratio() * 100);
}

std::string BandwidthText(double bytes_per_second) {
  return bytes_per_second > 0 ? FormatBandwidth(bytes_per_second) : "";
}

std::string LatencyText(const v1::HistoryPoint& point) {
  for (const v1::Measurement& each : point.measurements()) {
    if (each.metric() == v1::METRIC_LATENCY) return FormatLatency(each.value());
  }
  return "";
}

std::string YesText(bool yes) { return yes ? "yes" : ""; }

}  // namespace weft::cli
