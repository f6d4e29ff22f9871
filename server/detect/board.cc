#include "server/detect/board.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>

namespace weft {
namespace {

constexpr size_t kTrainingValues = 32;
constexpr size_t kSlowRunsOfAPair = 6;
// Pairs remembered, per node: there are too many to remember each that dipped once.
constexpr size_t kPairsPerNode = 4;
// Of a node's first runs this quantile is its level: some of its partners may be slow, few of its runs are
// faster than it really is.
constexpr double kCandidateQuantile = 0.67;
// A partner that reaches at least this share of the node's own level does not hold it back.
constexpr double kEqualPartner = 0.95;
// A run below this share of a blamed partner's level shows more than that partner's fault.
constexpr double kBeyondPartner = 0.9;
// Dips are of any depth; a real change settles on a level. Runs of a streak may differ from their middle by
// this share, less when a suspect partner leaves fewer of them.
constexpr double kAgreement = 0.12;
constexpr double kTightAgreement = 0.05;
// So deep that agreement does not matter.
constexpr double kUnmistakable = 0.6;

bool Agree(const std::vector<double>& ratios, double tolerance) {
  const double middle = Median(ratios);
  return std::all_of(ratios.begin(), ratios.end(),
                     [&](double ratio) { return std::abs(ratio - middle) <= tolerance * middle; });
}

bool Settles(const std::vector<double>& ratios, double tolerance) {
  return *std::max_element(ratios.begin(), ratios.end()) < kUnmistakable || Agree(ratios, tolerance);
}

PairKey KeyOf(const std::string& a, const std::string& b) { return a < b ? PairKey(a, b) : PairKey(b, a); }

size_t WindowSize(const DetectorOptions& options) {
  return std::max<size_t>({12, 2 * options.baseline_runs, options.slow_runs + options.recovered_runs + 4});
}

// Share of a cohort that must be bad before it counts as the fleet. In small cohorts two slow nodes spoil the
// runs of many others.
double FleetShare(size_t members) { return members >= 8 ? 0.5 : 0.6; }
constexpr size_t kSmallestFleet = 4;

uint8_t Saturated(size_t count) { return static_cast<uint8_t>(std::min<size_t>(count, 255)); }

}  // namespace

size_t Board::Streak::Partners() const {
  std::set<absl::string_view> partners;
  for (const Item& item : own) partners.insert(item.partner);
  return partners.size();
}

std::vector<double> Board::Streak::NewestRatios(size_t count) const {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(count, own.size()); ++i) ratios.push_back(own[i].ratio);
  return ratios;
}

const Series* Board::FindSeries(const std::string& node) const {
  const auto it = series_.find(node);
  return it == series_.end() ? nullptr : &it->second;
}

Series& Board::SeriesOf(const std::string& node, const std::string& cohort) {
  const auto [it, is_new] = series_.try_emplace(node);
  if (is_new) {
    it->second.cohort = cohort;
    cohorts_[cohort].members.insert(node);
    changes_.cohorts.insert(cohort);
  }
  return it->second;
}

// --- Taking reports in ---

bool Board::BelongsToAnOldStack(const RunReport& report) const {
  const Series* series = FindSeries(report.node);
  return series != nullptr && !report.stack.empty() && !series->stack.empty() &&
         report.stack != series->stack && report.time < series->stack_since;
}

// A new stack means a new baseline, but a fault that is open is not forgiven by it: it has to recover first.
void Board::FollowStack(Series& series, const RunReport& report) {
  if (report.stack.empty() || report.stack == series.stack) return;
  if (series.stack.empty()) {
    series.stack = report.stack;
    series.stack_since = report.time;
    return;
  }
  const bool is_newest = series.samples.empty() || report.time >= series.samples.front().time;
  if (!is_newest || series.belief(Aspect::kSpeed).open) return;
  ForgetLevel(series);
  series.stack = report.stack;
  series.stack_since = report.time;
}

void Board::FollowCohort(const std::string& node, Series& series, const RunReport& report) {
  const bool is_newest = series.samples.empty() || report.time >= series.samples.front().time;
  if (series.cohort == report.cohort || !is_newest) return;
  for (const Aspect aspect : kAllAspects) AddToTally(aspect, series, false);
  cohorts_[series.cohort].members.erase(node);
  changes_.cohorts.insert(series.cohort);
  series.cohort = report.cohort;
  cohorts_[series.cohort].members.insert(node);
  changes_.cohorts.insert(series.cohort);
  for (const Aspect aspect : kAllAspects) AddToTally(aspect, series, true);
}

// Writes the report into the windows of both ends; false if it is known already or too old for either.
bool Board::Record(const RunReport& report) {
  const size_t window = WindowSize(options_);
  Series& own = SeriesOf(report.node, report.cohort);
  Series& other = SeriesOf(report.partner, report.cohort);
  Sample* mine = FindOrInsertSample(own, report.time, report.run_id, report.partner, window);
  Sample* theirs = FindOrInsertSample(other, report.time, report.run_id, report.node, window);
  bool is_new = false;
  if (mine != nullptr && mine->mine.state == SideReport::State::kNone) {
    mine->mine = report.side;
    mine->in_maintenance |= report.in_maintenance;
    is_new = true;
  }
  if (theirs != nullptr && theirs->theirs.state == SideReport::State::kNone) {
    theirs->theirs = report.side;
    theirs->in_maintenance |= report.in_maintenance;
    is_new = true;
  }
  return is_new;
}

void Board::Observe(const RunReport& report) {
  if (BelongsToAnOldStack(report)) return;
  Series& series = SeriesOf(report.node, report.cohort);
  FollowCohort(report.node, series, report);
  FollowStack(series, report);
  if (!Record(report)) return;
  changes_.nodes.insert({report.node, report.partner});
  Cohort& cohort = cohorts_[report.cohort];
  ++cohort.reports_since_refresh;
  changes_.cohorts.insert(report.cohort);
  RefreshCohort(report.cohort, cohort);
  Learn(report.node, report.run_id);
  Learn(report.partner, report.run_id);
  EvaluateFrom(report.node, report.partner);
  EvaluatePair(report);
}

// --- Baselines and cohorts ---

void Board::Learn(const std::string& node, const std::string& run_id) {
  Series& series = series_.at(node);
  if (series.baseline == 0) {
    AdoptBaseline(series);
    return;
  }
  for (const Sample& sample : series.samples) {
    if (sample.run_id == run_id) Train(series, sample);
  }
}

// Only good runs train, so that the baseline cannot follow a drop.
void Board::Train(Series& series, const Sample& sample) {
  const Series* partner = FindSeries(sample.partner);
  if (!sample.complete() || sample.in_maintenance || partner == nullptr) return;
  if (series.belief(Aspect::kSpeed).open || partner->belief(Aspect::kSpeed).open) return;
  if (cohorts_[series.cohort].fleet[Index(Aspect::kSpeed)].open) return;
  if (Expected(*partner) < kEqualPartner * series.baseline) return;
  if (sample.bandwidth() < options_.recovered_ratio * series.baseline) return;
  series.training.push_back(sample.bandwidth());
  if (series.training.size() > kTrainingValues) series.training.erase(series.training.begin());
  series.baseline = Median(series.training);
}

std::vector<double> Board::Candidates(const Series& series) const {
  std::vector<double> values;
  for (const Sample& sample : series.samples) {
    const Series* partner = FindSeries(sample.partner);
    if (!sample.complete() || sample.in_maintenance || sample.explained[Index(Aspect::kSpeed)]) continue;
    if (partner == nullptr || partner->belief(Aspect::kSpeed).open) continue;
    values.push_back(sample.bandwidth());
  }
  return values;
}

void Board::AdoptBaseline(Series& series) {
  if (series.belief(Aspect::kSpeed).open || cohorts_[series.cohort].fleet[Index(Aspect::kSpeed)].open) return;
  const std::vector<double> values = Candidates(series);
  if (values.size() < options_.baseline_runs) return;
  const double level = Quantile(values, kCandidateQuantile);
  const CohortLevel* cohort = LevelOfCohort(series);
  if (cohort == nullptr) return;
  // With enough peers the cohort has to be known first: a node that was never fast must not set its own mark.
  const bool has_peers = cohort->nodes >= 3 && values.size() < 2 * options_.baseline_runs;
  if (cohort->level == 0 ? has_peers : IsFarBelowCohort(series, level)) return;
  if (level <= 0) return;
  for (auto value = values.rbegin(); value != values.rend(); ++value) {
    if (*value >= options_.recovered_ratio * level) series.training.push_back(*value);
  }
  series.baseline = Median(series.training);
}

const CohortLevel* Board::LevelOfCohort(const Series& series) const {
  const auto cohort = cohorts_.find(series.cohort);
  if (cohort == cohorts_.end()) return nullptr;
  const auto level = cohort->second.levels.find(series.stack);
  return level == cohort->second.levels.end() ? nullptr : &level->second;
}

// Far enough to be called slow, and outside of the cohort's own variety.
bool Board::IsFarBelowCohort(const Series& series, double level) const {
  const CohortLevel* cohort = LevelOfCohort(series);
  if (cohort == nullptr || cohort->level <= 0) return false;
  return level < options_.slow_ratio * cohort->level && cohort->level - level > 4 * cohort->spread;
}

// About once a round in steady state, sooner while something is not known yet.
void Board::RefreshCohort(const std::string& name, Cohort& cohort) {
  const uint64_t members = cohort.members.size();
  bool is_settled = !cohort.levels.empty();
  for (const auto& [stack, level] : cohort.levels) is_settled &= level.level > 0;
  if (cohort.reports_since_refresh < (is_settled ? members : members / 4 + 1)) return;
  cohort.reports_since_refresh = 0;
  std::map<std::string, std::vector<double>> levels;
  std::map<std::string, CohortLevel> result;
  for (const std::string& node : cohort.members) {
    const Series& series = series_.at(node);
    ++result[series.stack].nodes;
    if (series.baseline > 0) {
      levels[series.stack].push_back(series.baseline);
      continue;
    }
    const std::vector<double> values = Candidates(series);
    if (values.size() >= options_.baseline_runs) {
      levels[series.stack].push_back(Quantile(values, kCandidateQuantile));
    }
  }
  for (auto& [stack, level] : result) {
    std::vector<double> known = levels[stack];
    if (known.size() < 3 || 2 * known.size() <= level.nodes) continue;
    level.level = Median(known);
    for (double& value : known) value = std::abs(value - level.level);
    level.spread = Median(known);
  }
  cohort.levels = std::move(result);
  changes_.cohorts.insert(name);
}

double Board::Expected(const Series& series) const {
  const Belief& belief = series.belief(Aspect::kSpeed);
  if (belief.open) return belief.expected;
  if (series.baseline > 0 && !IsFarBelowCohort(series, series.baseline)) return series.baseline;
  const CohortLevel* cohort = LevelOfCohort(series);
  return cohort == nullptr ? 0 : cohort->level;
}

// --- Judging runs ---

Judgement Board::Judge(Aspect aspect, const Series& series, const Sample& sample, bool fleet) const {
  if (sample.mine.state == SideReport::State::kSkipped ||
      sample.theirs.state == SideReport::State::kSkipped) {
    return {};
  }
  return aspect == Aspect::kSpeed ? JudgeSpeed(series, sample, fleet) : JudgeFailure(sample);
}

Judgement Board::JudgeSpeed(const Series& series, const Sample& sample, bool fleet) const {
  const auto failed = SideReport::State::kFailed;
  if (sample.bandwidth() < 0 || sample.mine.state == failed || sample.theirs.state == failed) return {};
  Judgement judgement;
  judgement.observed = sample.bandwidth();
  const double own = Expected(series);
  if (own <= 0) return judgement;
  const Series* partner = FindSeries(sample.partner);
  const double other = partner == nullptr ? 0 : Expected(*partner);
  const auto cohort = cohorts_.find(series.cohort);
  const double shift =
      fleet && cohort != cohorts_.end() ? cohort->second.fleet[Index(Aspect::kSpeed)].ratio : 1;
  judgement.expected = shift * (other > 0 ? std::min(own, other) : own);
  const double ratio = judgement.ratio();
  // One direction alone can show that a run is slow, not that it is good.
  const bool is_whole = sample.complete();
  if (ratio >= options_.recovered_ratio) {
    judgement.verdict = is_whole ? Verdict::kGood : Verdict::kUnknown;
    return judgement;
  }
  if (other <= 0) return judgement;
  const Belief& blame = partner->belief(Aspect::kSpeed);
  const bool is_beyond = judgement.observed < kBeyondPartner * blame.ratio * blame.expected;
  if (sample.explained[Index(Aspect::kSpeed)] || (blame.open && !is_beyond)) {
    judgement.verdict = Verdict::kExplained;
  } else if (ratio < options_.slow_ratio) {
    judgement.verdict = Verdict::kBad;
  } else {
    judgement.verdict = is_whole ? Verdict::kMiddle : Verdict::kUnknown;
  }
  return judgement;
}

Judgement Board::JudgeFailure(const Sample& sample) const {
  using State = SideReport::State;
  Judgement judgement;
  const bool i_failed = sample.mine.state == State::kFailed;
  const bool they_failed = sample.theirs.state == State::kFailed;
  if (!i_failed && !they_failed) {
    if (sample.both_ok()) judgement.verdict = Verdict::kGood;
    return judgement;
  }
  const bool i_accuse = i_failed && sample.mine.accuses_peer;
  const bool they_accuse = they_failed && sample.theirs.accuses_peer;
  // Whom one end accuses, or who failed where the other did not, is at fault; otherwise it is either.
  const bool is_theirs = (i_accuse && !they_accuse) || (they_failed && sample.mine.state == State::kOk);
  const bool is_mine = (they_accuse && !i_accuse) || (i_failed && sample.theirs.state == State::kOk);
  const Series* partner = FindSeries(sample.partner);
  const bool is_blamed = partner != nullptr && partner->belief(Aspect::kFailure).open;
  const bool is_explained = sample.explained[Index(Aspect::kFailure)] || is_blamed;
  judgement.verdict = is_theirs || (is_explained && !is_mine) ? Verdict::kExplained : Verdict::kBad;
  return judgement;
}

// --- Beliefs of nodes ---

// A change of one node changes how its partners look.
void Board::EvaluateFrom(const std::string& node, const std::string& partner) {
  for (const Aspect aspect : kAllAspects) {
    std::deque<std::string> queue = {node, partner};
    while (!queue.empty()) {
      const std::string next = queue.front();
      queue.pop_front();
      if (!Evaluate(aspect, next)) continue;
      for (const Sample& sample : series_.at(next).samples) queue.push_back(sample.partner);
    }
    EvaluateFleet(aspect, series_.at(node).cohort);
  }
}

bool Board::Evaluate(Aspect aspect, const std::string& node) {
  const auto it = series_.find(node);
  if (it == series_.end()) return false;
  Series& series = it->second;
  MarkExplained(aspect, node, series);
  CountRuns(aspect, node, series);
  Belief& belief = series.belief(aspect);
  if (belief.open) {
    UpdateRatio(aspect, series);
    changes_.nodes.insert(node);
    if (belief.good_runs < options_.recovered_runs) return false;
    belief.open = false;
    open_[Index(aspect)].erase(node);
    return true;
  }
  if (belief.bad_runs == 0) return false;
  const Streak streak = NewestStreak(aspect, node, series);
  if (!IsEnough(streak) || LooksLikeTheFleet(aspect, series)) return false;
  Open(aspect, node, series, streak);
  return true;
}

// What a partner was once to blame for does not turn against the node when the partner recovers.
void Board::MarkExplained(Aspect aspect, const std::string& node, Series& series) {
  // Judging is dear, and nearly all samples are good: only these can be explained.
  const auto can_be = [&](const Sample& sample) {
    if (aspect == Aspect::kSpeed) return open_[Index(aspect)].count(sample.partner) != 0;
    return sample.mine.state == SideReport::State::kFailed ||
           sample.theirs.state == SideReport::State::kFailed;
  };
  for (Sample& sample : series.samples) {
    bool& explained = sample.explained[Index(aspect)];
    if (explained || !can_be(sample)) continue;
    if (Judge(aspect, series, sample).verdict != Verdict::kExplained) continue;
    explained = true;
    changes_.nodes.insert(node);
  }
}

void Board::CountRuns(Aspect aspect, const std::string& node, Series& series) {
  size_t bad = 0;
  size_t good = 0;
  for (const Sample& sample : series.samples) {
    const Verdict verdict = Judge(aspect, series, sample, false).verdict;
    if (verdict == Verdict::kMiddle || (verdict == Verdict::kGood && bad > 0) ||
        (verdict == Verdict::kBad && good > 0)) {
      break;
    }
    bad += verdict == Verdict::kBad;
    good += verdict == Verdict::kGood;
    if (good >= options_.recovered_runs) break;  // nobody asks for more
  }
  Belief& belief = series.belief(aspect);
  if (belief.bad_runs == bad && belief.good_runs == good) return;
  AddToTally(aspect, series, false);
  belief.bad_runs = Saturated(bad);
  belief.good_runs = Saturated(good);
  AddToTally(aspect, series, true);
  changes_.nodes.insert(node);
}

void Board::AddToTally(Aspect aspect, const Series& series, bool add) {
  const Belief& belief = series.belief(aspect);
  Cohort::Tally& tally = cohorts_[series.cohort].tally[Index(aspect)];
  const auto count = [add](size_t& counter, bool holds) {
    if (holds) counter = add ? counter + 1 : counter - 1;
  };
  count(tally.two_bad, belief.bad_runs >= 2);
  count(tally.streak_bad, belief.bad_runs >= options_.slow_runs);
  count(tally.streak_good, belief.good_runs >= options_.recovered_runs);
}

Board::Streak Board::NewestStreak(Aspect aspect, const std::string& node, const Series& series) const {
  std::vector<std::pair<Streak::Item, bool>> items;  // with whether it is explained
  for (const Sample& sample : series.samples) {
    const Judgement judgement = Judge(aspect, series, sample);
    if (judgement.verdict == Verdict::kGood || judgement.verdict == Verdict::kMiddle) break;
    if (judgement.verdict == Verdict::kUnknown) continue;
    items.push_back(
        {{sample.time, sample.partner, judgement.ratio()}, judgement.verdict == Verdict::kExplained});
    if (items.size() == options_.slow_runs + 2) break;
  }
  Streak streak;
  for (auto& [item, is_explained] : items) {
    const bool is_shared = is_explained || IsSuspect(aspect, item.partner, node, items.back().first.time);
    (is_shared ? streak.shared : streak.own).push_back(std::move(item));
  }
  return streak;
}

// Its runs with others since then are all bad, so it may as well be the cause.
bool Board::IsSuspect(Aspect aspect, const std::string& node, const std::string& apart_from,
                      absl::Time since) const {
  const Series* series = FindSeries(node);
  if (series == nullptr) return false;
  size_t bad = 0;
  for (const Sample& sample : series->samples) {
    if (sample.time < since) break;
    if (sample.partner == apart_from) continue;
    const Verdict verdict = Judge(aspect, *series, sample).verdict;
    if (verdict == Verdict::kGood || verdict == Verdict::kMiddle) return false;
    bad += verdict == Verdict::kBad;
  }
  return bad > 0;
}

bool Board::IsEnough(const Streak& streak) const {
  return IsEnoughAlone(streak) || IsEnoughWithShared(streak);
}

bool Board::IsEnoughAlone(const Streak& streak) const {
  const size_t needed = options_.slow_runs;
  if (streak.own.size() < needed || streak.Partners() < 2) return false;
  if (streak.own.size() >= needed + 2) return true;
  return Settles(streak.NewestRatios(needed), kAgreement);
}

// A run with a suspect partner stands in for one run of the node's own.
bool Board::IsEnoughWithShared(const Streak& streak) const {
  const size_t needed = std::max<size_t>(2, options_.slow_runs - 1);
  if (streak.own.size() < needed || streak.shared.empty() || streak.Partners() < 2) return false;
  const std::vector<double> ratios = streak.NewestRatios(needed);
  // A pair is no faster than its slower end: what a run with a suspect shows must be at least as bad.
  const double ceiling = (1 + kTightAgreement) * Median(ratios);
  const auto fits = [&](const Streak::Item& item) { return item.ratio <= ceiling; };
  return std::all_of(streak.shared.begin(), streak.shared.end(), fits) && Settles(ratios, kTightAgreement);
}

bool Board::LooksLikeTheFleet(Aspect aspect, const Series& series) const {
  const Cohort& cohort = cohorts_.at(series.cohort);
  const size_t members = cohort.members.size();
  if (members < kSmallestFleet || cohort.fleet[Index(aspect)].open) return false;
  const size_t others = cohort.tally[Index(aspect)].two_bad - (series.belief(aspect).bad_runs >= 2 ? 1 : 0);
  return static_cast<double>(others) > FleetShare(members) * static_cast<double>(members - 1);
}

void Board::Open(Aspect aspect, const std::string& node, Series& series, const Streak& streak) {
  Belief& belief = series.belief(aspect);
  belief.expected = Expected(series);
  belief.against_cohort = series.baseline == 0 || belief.expected != series.baseline;
  belief.open = true;
  belief.since = streak.own.back().time;
  std::vector<double> ratios;
  for (const Streak::Item& item : streak.own) ratios.push_back(item.ratio);
  belief.ratio = Median(ratios);
  open_[Index(aspect)].insert(node);
  changes_.nodes.insert(node);
  if (aspect == Aspect::kSpeed) ErasePairsOf(node);
}

// The middle of the newest runs that tell of the node itself.
void Board::UpdateRatio(Aspect aspect, Series& series) {
  Belief& belief = series.belief(aspect);
  std::vector<double> ratios;
  for (const Sample& sample : series.samples) {
    if (sample.time < belief.since || ratios.size() == 5) break;
    const Judgement judgement = Judge(aspect, series, sample);
    if (judgement.verdict == Verdict::kUnknown || judgement.verdict == Verdict::kExplained) continue;
    ratios.push_back(judgement.ratio());
  }
  if (!ratios.empty()) belief.ratio = Median(ratios);
}

// --- The fleet ---

void Board::EvaluateFleet(Aspect aspect, const std::string& name) {
  Cohort& cohort = cohorts_.at(name);
  const Cohort::Tally& tally = cohort.tally[Index(aspect)];
  Cohort::FleetBelief& fleet = cohort.fleet[Index(aspect)];
  const auto members = static_cast<double>(cohort.members.size());
  const bool was_open = fleet.open;
  if (fleet.open) {
    fleet.open = static_cast<double>(tally.streak_good) < 0.5 * members;
  } else if (cohort.members.size() >= kSmallestFleet) {
    fleet.open = static_cast<double>(tally.streak_bad) >= FleetShare(cohort.members.size()) * members;
  }
  if (fleet.open == was_open) return;
  changes_.cohorts.insert(name);
  fleet.ratio = 1;
  fleet.since = absl::InfiniteFuture();
  for (const std::string& node : cohort.members) {
    const Series& series = series_.at(node);
    const size_t bad = series.belief(aspect).bad_runs;
    if (bad >= options_.slow_runs && bad <= series.samples.size()) {
      fleet.since = std::min(fleet.since, series.samples[bad - 1].time);
    }
  }
  if (fleet.open && aspect == Aspect::kSpeed) fleet.ratio = MiddleRatio(cohort);
}

double Board::MiddleRatio(const Cohort& cohort) const {
  std::vector<double> ratios;
  for (const std::string& node : cohort.members) {
    const Series& series = series_.at(node);
    for (const Sample& sample : series.samples) {
      const Judgement judgement = JudgeSpeed(series, sample, false);
      if (judgement.verdict == Verdict::kUnknown || judgement.verdict == Verdict::kExplained) continue;
      ratios.push_back(judgement.ratio());
      break;
    }
  }
  return ratios.empty() ? 1 : std::min(1.0, Median(ratios));
}

// --- Pairs ---

void Board::EvaluatePair(const RunReport& report) {
  const Series& series = series_.at(report.node);
  for (const Sample& sample : series.samples) {
    if (sample.run_id != report.run_id) continue;
    const PairKey key = KeyOf(report.node, report.partner);
    const Judgement judgement = Judge(Aspect::kSpeed, series, sample);
    const bool is_blamed =
        series.belief(Aspect::kSpeed).open || series_.at(report.partner).belief(Aspect::kSpeed).open;
    if (judgement.verdict == Verdict::kGood) AddGoodRun(key, sample.time);
    if (judgement.verdict == Verdict::kBad && !is_blamed) AddSlowRun(key, sample, judgement);
    return;
  }
}

void Board::AddSlowRun(const PairKey& key, const Sample& sample, const Judgement& judgement) {
  if (pairs_.count(key) == 0) MakeRoomForPair();
  PairMemory& memory = pairs_[key];
  changes_.pairs.insert(key);
  const auto same = [&](const PairMemory::SlowRun& run) { return run.run_id == sample.run_id; };
  memory.slow.erase(std::remove_if(memory.slow.begin(), memory.slow.end(), same), memory.slow.end());
  const auto newer = [&](const PairMemory::SlowRun& run) { return run.time > sample.time; };
  const auto place = std::partition_point(memory.slow.begin(), memory.slow.end(), newer);
  if (place == memory.slow.begin()) memory.good_runs = 0;
  memory.slow.insert(place, {sample.time, sample.run_id, judgement.observed, judgement.expected});
  if (memory.slow.size() > kSlowRunsOfAPair) memory.slow.pop_back();
  if (memory.open || memory.slow.size() < options_.slow_runs) return;
  std::vector<double> ratios;
  for (size_t i = 0; i < options_.slow_runs; ++i) {
    ratios.push_back(memory.slow[i].observed / memory.slow[i].expected);
  }
  const absl::Time since = memory.slow.back().time;
  memory.open = Agree(ratios, kAgreement) && IsFineWithOthers(key.first, key.second, since) &&
                IsFineWithOthers(key.second, key.first, since);
}

void Board::AddGoodRun(const PairKey& key, absl::Time time) {
  const auto it = pairs_.find(key);
  if (it == pairs_.end() || time < it->second.slow.front().time) return;
  changes_.pairs.insert(key);
  // A path is met seldom: two good runs are enough.
  if (++it->second.good_runs >= 2 || !it->second.open) ErasePair(key);
}

// Forgets the pair that was slow longest ago; not one that is believed to be at fault.
void Board::MakeRoomForPair() {
  if (pairs_.size() < kPairsPerNode * series_.size()) return;
  auto oldest = pairs_.end();
  for (auto it = pairs_.begin(); it != pairs_.end(); ++it) {
    if (it->second.open) continue;
    if (oldest == pairs_.end() || it->second.slow.front().time < oldest->second.slow.front().time)
      oldest = it;
  }
  if (oldest != pairs_.end()) ErasePair(PairKey(oldest->first));
}

// True also of a node that has no other partner.
bool Board::IsFineWithOthers(const std::string& node, const std::string& partner, absl::Time since) const {
  const Series& series = series_.at(node);
  std::optional<bool> newest_is_good;
  size_t good = 0;
  bool has_others = false;
  for (const Sample& sample : series.samples) {
    if (sample.partner == partner) continue;
    has_others = true;
    if (sample.time < since) break;
    const Verdict verdict = Judge(Aspect::kSpeed, series, sample).verdict;
    if (verdict == Verdict::kUnknown || verdict == Verdict::kExplained) continue;
    if (!newest_is_good) newest_is_good = verdict == Verdict::kGood;
    good += verdict == Verdict::kGood;
  }
  return !has_others || (newest_is_good.value_or(false) && good >= 2);
}

void Board::ErasePair(const PairKey& key) {
  pairs_.erase(key);
  changes_.pairs.insert(key);
}

void Board::ErasePairsOf(const std::string& node) {
  std::vector<PairKey> keys;
  for (const auto& [key, memory] : pairs_) {
    if (key.first == node || key.second == node) keys.push_back(key);
  }
  for (const PairKey& key : keys) ErasePair(key);
}

bool Board::IsTransient(const PairKey& pair, const PairMemory& memory) const {
  if (memory.open) return false;
  const auto has_recovered = [&](const std::string& node) {
    const Series* series = FindSeries(node);
    return series == nullptr || series->belief(Aspect::kSpeed).good_runs >= options_.recovered_runs;
  };
  return !has_recovered(pair.first) || !has_recovered(pair.second);
}

// --- Memory as blobs ---

std::string Board::EncodeNode(const std::string& node) const {
  const Series* series = FindSeries(node);
  if (series == nullptr) return "";
  BlobWriter writer;
  EncodeSeries(*series, writer);
  return writer.Take();
}

bool Board::RestoreNode(const std::string& node, BlobReader& reader) {
  series_[node] = DecodeSeries(reader);
  return reader.AtEnd();
}

std::string Board::EncodeCohort(const std::string& cohort) const {
  const auto it = cohorts_.find(cohort);
  if (it == cohorts_.end()) return "";
  BlobWriter writer;
  writer.U64(it->second.reports_since_refresh);
  for (const Cohort::FleetBelief& fleet : it->second.fleet) {
    writer.U8(fleet.open);
    writer.Instant(fleet.open ? fleet.since : absl::InfinitePast());
    writer.F64(fleet.ratio);
  }
  writer.U64(it->second.levels.size());
  for (const auto& [stack, level] : it->second.levels) {
    writer.Text(stack);
    writer.F64(level.level);
    writer.F64(level.spread);
    writer.U64(level.nodes);
  }
  return writer.Take();
}

bool Board::RestoreCohort(const std::string& cohort, BlobReader& reader) {
  Cohort& restored = cohorts_[cohort];
  restored.reports_since_refresh = reader.U64();
  for (Cohort::FleetBelief& fleet : restored.fleet) {
    fleet.open = reader.U8() != 0;
    fleet.since = reader.Instant();
    fleet.ratio = reader.F64();
  }
  for (size_t i = reader.Count(); i > 0; --i) {
    CohortLevel& level = restored.levels[reader.Text()];
    level.level = reader.F64();
    level.spread = reader.F64();
    level.nodes = reader.U64();
  }
  return reader.AtEnd();
}

std::string Board::EncodePair(const PairKey& pair) const {
  const auto it = pairs_.find(pair);
  if (it == pairs_.end()) return "";
  BlobWriter writer;
  writer.U8(it->second.open);
  writer.U8(it->second.good_runs);
  writer.U64(it->second.slow.size());
  for (const PairMemory::SlowRun& run : it->second.slow) {
    writer.Instant(run.time);
    writer.Text(run.run_id);
    writer.F64(run.observed);
    writer.F64(run.expected);
  }
  return writer.Take();
}

bool Board::RestorePair(const PairKey& pair, BlobReader& reader) {
  PairMemory& memory = pairs_[pair];
  memory.open = reader.U8() != 0;
  memory.good_runs = reader.U8();
  memory.slow.resize(reader.Count());
  for (PairMemory::SlowRun& run : memory.slow) {
    run.time = reader.Instant();
    run.run_id = reader.Text();
    run.observed = reader.F64();
    run.expected = reader.F64();
  }
  return reader.AtEnd() && !memory.slow.empty();
}

void Board::FinishRestore() {
  for (const auto& [node, series] : series_) {
    cohorts_[series.cohort].members.insert(node);
    for (const Aspect aspect : kAllAspects) {
      AddToTally(aspect, series, true);
      if (series.belief(aspect).open) open_[Index(aspect)].insert(node);
    }
  }
}

}  // namespace weft
