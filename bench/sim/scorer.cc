#include "bench/sim/scorer.h"

#include <algorithm>
#include <set>
#include <utility>

#include "bench/sim/strategy.h"

namespace weft::sim {
namespace {

// A finding may still come in after its fault has gone, from runs before that.
constexpr absl::Duration kGrace = absl::Hours(1);

bool Counts(const Finding& finding) {
  return finding.severity != Severity::kInfo && finding.kind != FindingKind::kTransient;
}

bool IsToBePaged(const Fault& fault) { return fault.kind != FaultKind::kTransient; }

std::string KindName(FindingKind kind) {
  switch (kind) {
    case FindingKind::kBandwidthDrop:
      return "bandwidth_drop";
    case FindingKind::kBelowCohort:
      return "below_cohort";
    case FindingKind::kProbeFailure:
      return "probe_failure";
    default:
      return "other";
  }
}

template <typename Predicate>
size_t CountFaults(const Score& score, const Scenario& scenario, Predicate predicate) {
  size_t count = 0;
  for (size_t i = 0; i < score.faults.size(); ++i) {
    count += IsToBePaged(scenario.faults[i]) && score.faults[i].exposed && predicate(score.faults[i]);
  }
  return count;
}

// Of two faults that explain a finding, the one that is smaller explains it better.
int Extent(FaultKind kind) {
  if (kind == FaultKind::kFleet) return 2;
  return kind == FaultKind::kLeaf || kind == FaultKind::kUplink ? 1 : 0;
}

bool Crosses(const Fault& fault, size_t a, size_t b, const Scenario& scenario) {
  const auto on_leaf = [&](size_t node, size_t rail) { return scenario.LeafOf(node, rail) == fault.leaf; };
  switch (fault.kind) {
    case FaultKind::kFleet:
      return true;
    case FaultKind::kPair:
      return (fault.node == a && fault.peer == b) || (fault.node == b && fault.peer == a);
    case FaultKind::kLeaf:
    case FaultKind::kUplink:
      for (size_t rail = 0; rail < scenario.rails; ++rail) {
        const bool first = on_leaf(a, rail);
        const bool second = on_leaf(b, rail);
        if (fault.kind == FaultKind::kLeaf ? first || second : first != second) return true;
      }
      return false;
    default:
      return fault.node == a || fault.node == b;
  }
}

}  // namespace

size_t Score::FaultsToFind(const Scenario& scenario) const {
  return CountFaults(*this, scenario, [](const FaultScore&) { return true; });
}
size_t Score::Found(const Scenario& scenario) const {
  return CountFaults(*this, scenario, [](const FaultScore& fault) { return fault.found; });
}
size_t Score::Right(const Scenario& scenario) const {
  return CountFaults(*this, scenario, [](const FaultScore& fault) { return fault.right; });
}

Scorer::Scorer(const Scenario& scenario) : scenario_(scenario), following_(scenario.faults.size()) {
  score_.faults.resize(scenario.faults.size());
}

bool Scorer::CanBeProbed(const Fault& fault, const std::vector<bool>& is_busy) const {
  if (fault.kind == FaultKind::kFleet || Extent(fault.kind) == 1) return true;
  return !is_busy[fault.node] && (fault.kind != FaultKind::kPair || !is_busy[fault.peer]);
}

void Scorer::BeginRound(absl::Duration now, const std::vector<bool>& is_busy) {
  for (size_t i = 0; i < following_.size(); ++i) {
    const Fault& fault = scenario_.faults[i];
    if (fault.IsActive(now) && CanBeProbed(fault, is_busy)) ++following_[i].rounds;
  }
}

void Scorer::CountRun(absl::Duration now, const std::vector<size_t>& nodes) {
  for (size_t i = 0; i < following_.size(); ++i) {
    const Fault& fault = scenario_.faults[i];
    if (!fault.IsActive(now)) continue;
    bool crosses = nodes.size() > 2 && Crosses(fault, nodes.front(), nodes.back(), scenario_);
    for (size_t j = 0; j + 1 < nodes.size() && !crosses; ++j) {
      crosses = Crosses(fault, nodes[j], nodes[j + 1], scenario_);
    }
    if (!crosses) continue;
    score_.faults[i].exposed = true;
    ++following_[i].runs;
  }
}

bool Scorer::Explains(const Fault& fault, absl::Duration now) const {
  return IsToBePaged(fault) && now >= fault.onset && now < fault.end + kGrace;
}

bool Scorer::IsWorkedOn(const Finding& finding, absl::Duration now) const {
  return !finding.node_ids.empty() &&
         std::any_of(scenario_.maintenance.begin(), scenario_.maintenance.end(),
                     [&](const Maintenance& work) {
                       if (now < work.start || now >= work.end + kGrace) return false;
                       return std::any_of(finding.node_ids.begin(), finding.node_ids.end(),
                                          [&](const std::string& id) { return work.Covers(NodeIndex(id)); });
                     });
}

// An exact match wins, then the smallest fault.
size_t Scorer::FaultOf(const Finding& finding, absl::Duration now) const {
  size_t best = kAll;
  int best_rank = 0;
  for (size_t i = 0; i < scenario_.faults.size(); ++i) {
    const Fault& fault = scenario_.faults[i];
    if (!Explains(fault, now)) continue;
    const Match match = MatchOf(finding, fault, scenario_);
    if (match == Match::kNone) continue;
    const int rank = match == Match::kExact ? 4 : 3 - Extent(fault.kind);
    if (rank > best_rank) {
      best = i;
      best_rank = rank;
    }
  }
  return best;
}

Scorer::Known& Scorer::Open(const Episode& episode, absl::Duration now) {
  const auto [it, is_new] = known_.try_emplace(episode.id);
  Known& known = it->second;
  const Finding& finding = episode.finding;
  if (!is_new) return known;
  known.fault = FaultOf(finding, now);
  known.is_explained = known.fault != kAll || IsWorkedOn(finding, now);
  if (known.fault != kAll) {
    const bool is_exact = MatchOf(finding, scenario_.faults[known.fault], scenario_) == Match::kExact;
    score_.faults[known.fault].symptoms += !is_exact;
  }
  if (!known.is_explained) {
    known.false_finding = score_.false_findings.size();
    score_.false_findings.push_back({NameOf(finding), KindName(finding.kind), now, false, finding.summary});
  }
  return known;
}

void Scorer::Credit(size_t index, const Finding& finding, absl::Duration now) {
  const Fault& fault = scenario_.faults[index];
  if (!Explains(fault, now)) return;
  FaultScore& score = score_.faults[index];
  Following& following = following_[index];
  ++following.rounds_by_name[NameOf(finding)];
  if (!score.found) {
    score.found = true;
    score.found_after = now - fault.onset;
    score.runs_until_found = following.runs;
  }
  if (score.was_named_right || MatchOf(finding, fault, scenario_) != Match::kExact) return;
  score.was_named_right = true;
  score.right_after = now - fault.onset;
  score.rounds_until_right = following.rounds;
}

void Scorer::CountPage(const Episode& episode, Known& known, absl::Duration now) {
  if (!episode.notified || known.was_told) return;
  known.was_told = true;
  ++score_.pages;
  const bool is_true = known.fault != kAll || FaultOf(episode.finding, now) != kAll;
  if (is_true) return;
  ++score_.pages_false;
  if (known.false_finding != kAll) score_.false_findings[known.false_finding].told = true;
}

void Scorer::Judge(absl::Duration now, const std::map<std::string, Episode>& open) {
  std::set<std::string> ids;
  for (const auto& [key, episode] : open) {
    ids.insert(episode.id);
    if (!Counts(episode.finding)) continue;
    Known& known = Open(episode, now);
    // A fault may come where a finding is open already.
    const size_t fault = FaultOf(episode.finding, now);
    if (fault != kAll) Credit(fault, episode.finding, now);
    CountPage(episode, known, now);
  }
  for (auto it = known_.begin(); it != known_.end();) {
    it = ids.count(it->first) == 0 ? known_.erase(it) : std::next(it);
  }
}

Score Scorer::Finish() {
  for (size_t i = 0; i < score_.faults.size(); ++i) {
    FaultScore& score = score_.faults[i];
    const Name right = RightName(scenario_.faults[i]);
    uint64_t longest = 0;
    for (const auto& [name, rounds] : following_[i].rounds_by_name) {
      if (rounds < longest || (rounds == longest && score.named == right)) continue;
      longest = rounds;
      score.named = name;
    }
    score.right = score.found && score.named == right;
  }
  return std::move(score_);
}

}  // namespace weft::sim
