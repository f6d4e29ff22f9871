#include "server/detect/findings.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_format.h"
#include "base/units.h"

namespace weft {
namespace {

constexpr size_t kMostEvidence = 16;
// Below this share of the expected a job does not merely run slower.
constexpr double kCriticalRatio = 0.5;
// What one more run leaves of the doubt.
constexpr double kDoubtPerRun = 0.35;

Severity SeverityOf(double ratio) {
  return ratio < kCriticalRatio ? Severity::kCritical : Severity::kWarning;
}

double Confidence(size_t runs, size_t partners) {
  const double doubt = std::pow(kDoubtPerRun, static_cast<double>(runs));
  return std::min(0.99, (1 - doubt) * (partners >= 3 ? 1 : 0.95));
}

std::string Share(double observed, double expected) {
  return absl::StrFormat("%.0f %% of expected (%s of %s)", 100 * observed / expected,
                         FormatBandwidth(observed), FormatBandwidth(expected));
}

std::string Count(size_t n, const char* noun) {
  return absl::StrFormat("%d %s%s", n, noun, n == 1 ? "" : "s");
}

std::string WithPartners(size_t partners) { return absl::StrFormat("with %s", Count(partners, "partner")); }

// How the newest runs are, not how it began: a finding is held until enough of them are good.
std::string SpeedSummary(const Belief& belief, const Finding& finding, size_t partners) {
  const bool is_recovering = belief.good_runs > 0;
  const char* falling = belief.against_cohort ? "is" : "fell to";
  return absl::StrFormat("bandwidth %s %.0f %% of %s (%s of %s) %s%s",
                         is_recovering       ? "is recovering:"
                         : belief.ratio >= 1 ? "is unsteady:"
                                             : falling,
                         100 * belief.ratio, belief.against_cohort ? "its cohort's" : "expected",
                         FormatBandwidth(finding.observed), FormatBandwidth(finding.expected),
                         is_recovering ? "after slow runs " : "", WithPartners(partners));
}

// The runs behind a node's belief.
std::vector<Evidence> EvidenceOf(const Board& board, Aspect aspect, const Series& series) {
  std::vector<Evidence> evidence;
  for (const Sample& sample : series.samples) {
    if (sample.time < series.belief(aspect).since || evidence.size() == kMostEvidence) break;
    const Judgement judgement = board.Judge(aspect, series, sample);
    if (judgement.verdict != Verdict::kBad && judgement.verdict != Verdict::kMiddle) continue;
    evidence.push_back({sample.run_id, sample.time, sample.partner, judgement.observed, judgement.expected});
  }
  return evidence;
}

size_t PartnersIn(const std::vector<Evidence>& evidence) {
  std::set<std::string> partners;
  for (const Evidence& one : evidence) partners.insert(one.partner_node_id);
  return partners.size();
}

Finding NodeFinding(const Board& board, Aspect aspect, const std::string& node, const std::string& channel) {
  const Series& series = board.series().at(node);
  const Belief& belief = series.belief(aspect);
  Finding finding;
  finding.scope = channel.empty() ? FindingScope::kNode : FindingScope::kNic;
  finding.node_ids = {node};
  finding.part = channel;
  finding.since = belief.since;
  finding.evidence = EvidenceOf(board, aspect, series);
  const size_t partners = PartnersIn(finding.evidence);
  finding.confidence = Confidence(finding.evidence.size(), partners);
  if (aspect == Aspect::kFailure) {
    finding.kind = FindingKind::kProbeFailure;
    finding.severity = Severity::kCritical;
    finding.summary = absl::StrFormat("%s in a row failed or timed out %s", Count(belief.bad_runs, "run"),
                                      WithPartners(partners));
    return finding;
  }
  finding.kind = belief.against_cohort ? FindingKind::kBelowCohort : FindingKind::kBandwidthDrop;
  finding.severity = SeverityOf(belief.ratio);
  finding.ratio = belief.ratio;
  finding.expected = belief.expected;
  finding.observed = belief.ratio * belief.expected;
  finding.summary = SpeedSummary(belief, finding, partners);
  return finding;
}

Finding FleetFinding(const Cohort& cohort, Aspect aspect, const std::string& name) {
  const Cohort::FleetBelief& fleet = cohort.fleet[static_cast<size_t>(aspect)];
  const Cohort::Tally& tally = cohort.tally[static_cast<size_t>(aspect)];
  Finding finding;
  finding.scope = FindingScope::kFleet;
  finding.part = name;
  finding.since = fleet.since;
  finding.confidence = Confidence(tally.streak_bad, cohort.members.size());
  if (aspect == Aspect::kFailure) {
    finding.kind = FindingKind::kProbeFailure;
    finding.severity = Severity::kCritical;
    finding.summary =
        absl::StrFormat("probes fail on %d of %d nodes at once", tally.streak_bad, cohort.members.size());
    return finding;
  }
  finding.kind = FindingKind::kBandwidthDrop;
  finding.severity = SeverityOf(fleet.ratio);
  finding.ratio = fleet.ratio;
  for (const auto& [stack, level] : cohort.levels) finding.expected = std::max(finding.expected, level.level);
  finding.observed = fleet.ratio * finding.expected;
  finding.summary = absl::StrFormat("bandwidth of most of %d nodes fell at once, to %.0f %% of expected",
                                    cohort.members.size(), 100 * fleet.ratio);
  return finding;
}

Finding PairFinding(const PairKey& key, const PairMemory& memory) {
  Finding finding;
  finding.scope = FindingScope::kPair;
  finding.node_ids = {key.first, key.second};
  std::vector<double> observed;
  std::vector<double> expected;
  for (const PairMemory::SlowRun& run : memory.slow) {
    finding.evidence.push_back({run.run_id, run.time, key.second, run.observed, run.expected});
    observed.push_back(run.observed);
    expected.push_back(run.expected);
  }
  finding.observed = Median(observed);
  finding.expected = Median(expected);
  finding.ratio = finding.observed / finding.expected;
  finding.since = memory.slow.back().time;
  if (memory.open) {
    finding.kind = FindingKind::kBandwidthDrop;
    finding.severity = Severity::kWarning;
    finding.confidence = Confidence(memory.slow.size(), 1);
    finding.summary = absl::StrFormat("bandwidth of the pair is %s while both ends are fine with others",
                                      Share(finding.observed, finding.expected));
    return finding;
  }
  finding.kind = FindingKind::kTransient;
  finding.severity = Severity::kInfo;
  finding.confidence = 0.1;
  finding.summary = absl::StrFormat("%s at %s", Count(memory.slow.size(), "slow run"),
                                    Share(finding.observed, finding.expected));
  return finding;
}

// The middle of the newest runs that tell of the node itself.
double ObservedLevel(const Board& board, const Series& series) {
  const Belief& belief = series.belief(Aspect::kSpeed);
  if (belief.open) return belief.ratio * belief.expected;
  std::vector<double> values;
  double newest = 0;
  for (const Sample& sample : series.samples) {
    if (sample.bandwidth() < 0 || values.size() == 3) continue;
    if (newest == 0) newest = sample.bandwidth();
    const Verdict verdict = board.Judge(Aspect::kSpeed, series, sample).verdict;
    if (verdict != Verdict::kUnknown && verdict != Verdict::kExplained) values.push_back(sample.bandwidth());
  }
  return values.empty() ? newest : Median(values);
}

absl::Time NewestBandwidthTime(const Series& series) {
  for (const Sample& sample : series.samples) {
    if (sample.bandwidth() >= 0) return sample.time;
  }
  return absl::InfinitePast();
}

}  // namespace

std::vector<Finding> FindingsOf(const Board& board, const std::string& probe, const std::string& channel) {
  std::vector<Finding> findings;
  for (const Aspect aspect : kAllAspects) {
    for (const std::string& node : board.open_nodes(aspect)) {
      findings.push_back(NodeFinding(board, aspect, node, channel));
    }
    for (const auto& [name, cohort] : board.cohorts()) {
      if (!cohort.fleet[static_cast<size_t>(aspect)].open) continue;
      findings.push_back(FleetFinding(cohort, aspect, name));
      if (!channel.empty()) findings.back().part += "/" + channel;
    }
  }
  for (const auto& [key, memory] : board.pairs()) {
    if (!memory.open && !board.IsTransient(key, memory)) continue;
    findings.push_back(PairFinding(key, memory));
    findings.back().part = channel;
  }
  for (Finding& finding : findings) finding.probe = probe;
  return findings;
}

std::vector<NodeLevel> LevelsOf(const Board& board, const std::string& probe) {
  std::vector<NodeLevel> levels;
  for (const auto& [node, series] : board.series()) {
    const absl::Time time = NewestBandwidthTime(series);
    if (time == absl::InfinitePast()) continue;
    levels.push_back(
        {node, probe, Metric::kWriteBandwidth, ObservedLevel(board, series), board.Expected(series), time});
  }
  return levels;
}

}  // namespace weft
