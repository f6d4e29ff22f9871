#include "bench/sim/explain.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bench/sim/strategy.h"

namespace weft::sim {
namespace {

bool IsOfOneNode(FaultKind kind) {
  switch (kind) {
    case FaultKind::kNode:
    case FaultKind::kNic:
    case FaultKind::kDrift:
    case FaultKind::kFlapping:
    case FaultKind::kTransient:
    case FaultKind::kFailing:
      return true;
    default:
      return false;
  }
}

bool IsOfALeaf(FaultKind kind) { return kind == FaultKind::kLeaf || kind == FaultKind::kUplink; }

std::string NicSubject(const std::string& node, const std::string& nic) {
  return absl::StrCat(node, "/", nic);
}

// `rail` kAll: any of the node's.
bool Touches(const Fault& fault, size_t node, size_t rail, const Scenario& scenario) {
  if (fault.kind == FaultKind::kFleet) return true;
  if (IsOfOneNode(fault.kind)) {
    return fault.node == node && (rail == kAll || fault.rail == kAll || fault.rail == rail);
  }
  if (!IsOfALeaf(fault.kind)) return false;
  for (size_t r = 0; r < scenario.rails; ++r) {
    if ((rail == kAll || rail == r) && scenario.LeafOf(node, r) == fault.leaf) return true;
  }
  return false;
}

// `part`: of a finding of a probe with many NICs, the one that it was seen on.
size_t RailOf(const std::string& part, const Scenario& scenario) {
  for (size_t rail = 0; rail < scenario.rails; ++rail) {
    if (part == NicName(rail)) return rail;
  }
  return kAll;
}

Match MatchPair(const Finding& finding, const Fault& fault, size_t rail, const Scenario& scenario) {
  const size_t a = NodeIndex(finding.node_ids[0]);
  const size_t b = NodeIndex(finding.node_ids[1]);
  if (fault.kind == FaultKind::kPair) {
    const bool is_pair = (fault.node == a && fault.peer == b) || (fault.node == b && fault.peer == a);
    return is_pair && (rail == kAll || fault.rail == kAll || rail == fault.rail) ? Match::kExact
                                                                                 : Match::kNone;
  }
  return Touches(fault, a, rail, scenario) || Touches(fault, b, rail, scenario) ? Match::kSymptom
                                                                                : Match::kNone;
}

}  // namespace

Match MatchOf(const Finding& finding, const Fault& fault, const Scenario& scenario) {
  if ((finding.kind == FindingKind::kProbeFailure) != (fault.kind == FaultKind::kFailing))
    return Match::kNone;
  const size_t rail = RailOf(finding.part, scenario);
  switch (finding.scope) {
    case FindingScope::kNode:
    case FindingScope::kNic:
      if (!Touches(fault, NodeIndex(finding.node_ids[0]), rail, scenario)) return Match::kNone;
      break;
    case FindingScope::kPair:
      return MatchPair(finding, fault, rail, scenario);
    case FindingScope::kLeaf:
      if (IsOfALeaf(fault.kind) && finding.part == LeafName(fault.leaf)) return Match::kExact;
      // The path between two leaves, of which this is one.
      if (IsOfALeaf(fault.kind) && absl::StrContains(finding.part, LeafName(fault.leaf)))
        return Match::kSymptom;
      return fault.kind == FaultKind::kFleet ? Match::kSymptom : Match::kNone;
    case FindingScope::kRail:
      return fault.kind == FaultKind::kFleet ? Match::kSymptom : Match::kNone;
    case FindingScope::kFleet:
      return fault.kind == FaultKind::kFleet ? Match::kExact : Match::kNone;
  }
  return NameOf(finding) == RightName(fault) ? Match::kExact : Match::kSymptom;
}

Name NameOf(const Finding& finding) {
  switch (finding.scope) {
    case FindingScope::kNode:
      return {"node", absl::StrJoin(finding.node_ids, ",")};
    case FindingScope::kNic:
      return {"nic", NicSubject(absl::StrJoin(finding.node_ids, ","), finding.part)};
    case FindingScope::kRail:
      return {"rail", finding.part};
    case FindingScope::kLeaf:
      return {"leaf", finding.part};
    case FindingScope::kPair:
      return {"pair", absl::StrJoin(finding.node_ids, ",")};
    case FindingScope::kFleet:
      break;
  }
  return {"fleet", "fleet"};
}

Name RightName(const Fault& fault) {
  if (IsOfALeaf(fault.kind)) return {"leaf", LeafName(fault.leaf)};
  if (fault.kind == FaultKind::kFleet) return {"fleet", "fleet"};
  if (fault.kind == FaultKind::kPair) {
    const auto [low, high] = std::minmax(fault.node, fault.peer);
    return {"pair", absl::StrCat(NodeId(low), ",", NodeId(high))};
  }
  if (fault.rail != kAll) return {"nic", NicSubject(NodeId(fault.node), NicName(fault.rail))};
  return {"node", NodeId(fault.node)};
}

}  // namespace weft::sim
