#include "bench/replay/modes.h"

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/detect/blame.h"
#include "server/detect/cohort.h"
#include "server/detect/event_class.h"
#include "server/detect/step_detector.h"

namespace weft {
namespace {

using Direction = StepEvent::Direction;

void WriteEvidence(size_t row, size_t at, size_t onset, const StepEvidence& e, std::ostream& out) {
  out << absl::StreamFormat(
      "{\"row\":%d,\"at\":%d,\"onset\":%d,\"may_be\":%d,\"after\":%d,\"shift\":%.6g,\"scale\":%.6g,"
      "\"correlation\":%.6g,\"contrast\":%.6g,\"contrast_beside_slope\":%.6g,\"share_low\":%.6g,"
      "\"onset_mass\":%.6g}\n",
      row, at, onset, MayBeStep(e) ? 1 : 0, e.after, e.shift, e.scale, e.correlation, e.contrast,
      e.contrast_beside_slope, e.share_low, e.onset_mass);
}

}  // namespace

void ReplaySeries(const Matrix& rows, StepProfile profile, std::ostream& out) {
  const StepDetector detector({.profile = profile});
  for (size_t row = 0; row < rows.size(); ++row) {
    for (const PlacedStep& step : FindSteps(detector, rows[row])) {
      const char* direction = step.event.direction == Direction::kWorse ? "down" : "up";
      out << absl::StreamFormat("{\"row\":%d,\"at\":%d,\"onset\":%d,\"direction\":\"%s\"}\n", row, step.at,
                                step.onset, direction);
    }
  }
}

void ReplayEvidence(const Matrix& rows, std::ostream& out) {
  const StepDetector detector({.profile = StepProfile::kFast});
  for (size_t row = 0; row < rows.size(); ++row) {
    StepState state;
    std::vector<size_t> present;
    for (size_t at = 0; at < rows[row].size(); ++at) {
      if (std::isfinite(rows[row][at])) present.push_back(at);
      const std::optional<StepDetector::Look> look = detector.TakeAndLook(state, rows[row][at]);
      if (!look.has_value() || look->direction != Direction::kWorse) continue;
      const size_t onset = present[present.size() - static_cast<size_t>(look->evidence.after)];
      WriteEvidence(row, at, onset, look->evidence, out);
    }
  }
}

void ReplayClasses(const Matrix& rows, const std::vector<int>& cohort_of_rows, std::ostream& out) {
  const StepDetector detector({});
  std::map<int, std::vector<size_t>> members;
  std::vector<EventClass> classes(rows.size(), EventClass::kNone);
  for (size_t row = 0; row < rows.size(); ++row) {
    if (cohort_of_rows[row] >= 0) {
      members[cohort_of_rows[row]].push_back(row);
    } else {
      classes[row] = ClassOf(rows[row], FindSteps(detector, rows[row]));
    }
  }
  for (const auto& [cohort, its_rows] : members) {
    Matrix series;
    for (const size_t row : its_rows) series.push_back(rows[row]);
    const std::vector<EventClass> its_classes = ClassesOf(detector, series);
    for (size_t i = 0; i < its_rows.size(); ++i) classes[its_rows[i]] = its_classes[i];
  }
  for (size_t row = 0; row < rows.size(); ++row) {
    out << absl::StreamFormat("{\"row\":%d,\"class\":\"%s\"}\n", row, NameOf(classes[row]));
  }
}

void ReplayCohorts(const std::vector<Matrix>& cohorts, std::ostream& out) {
  for (const Matrix& cohort : cohorts) {
    const std::string slow =
        absl::StrJoin(SlowAmongPeers(cohort), ",",
                      [](std::string* text, const PeerVerdict& one) { absl::StrAppend(text, one.node); });
    out << "{\"slow\":[" << slow << "]}\n";
  }
}

void ReplayPairs(const std::vector<Fabric>& fabrics, std::ostream& out) {
  for (const Fabric& fabric : fabrics) {
    std::vector<std::string> nodes, links;
    for (const Suspect& suspect : FindBlame(fabric.nodes, fabric.runs).suspects) {
      if (!suspect.is_blamed) continue;
      if (suspect.kind == PartKind::kNode) {
        nodes.push_back(absl::StrCat(suspect.node));
      } else {
        links.push_back(absl::StrCat("[", suspect.node, ",", suspect.peer, "]"));
      }
    }
    out << "{\"nodes\":[" << absl::StrJoin(nodes, ",") << "],\"links\":[" << absl::StrJoin(links, ",")
        << "]}\n";
  }
}

}  // namespace weft
