#include "server/plan/bisection.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/plan/rounds.h"

namespace weft {
namespace {

constexpr size_t kMaxEvidence = 16;
constexpr size_t kLeastNodes = 4;

size_t CeilDivide(size_t a, size_t b) { return (a + b - 1) / b; }

size_t CeilLog2(size_t n) {
  size_t log = 0;
  while ((size_t{1} << log) < n) ++log;
  return log;
}

// At least two groups, so that there is something to compare with.
size_t GroupSize(size_t nodes, const BisectionOptions& options) {
  return std::min(options.group_size, std::max<size_t>(2, nodes / 2));
}

std::vector<std::string> Scattered(std::vector<std::string> nodes) {
  std::sort(nodes.begin(), nodes.end(), [](const std::string& a, const std::string& b) {
    return std::pair(ScatterKey("", a), a) < std::pair(ScatterKey("", b), b);
  });
  return nodes;
}

std::vector<std::string> Joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

template <typename Range>
bool Contains(const Range& range, const std::string& id) {
  return std::find(range.begin(), range.end(), id) != range.end();
}

void Halve(const std::vector<std::string>& whole, std::vector<std::string> (&part)[2]) {
  const auto middle = whole.begin() + static_cast<std::ptrdiff_t>(whole.size() / 2);
  part[0].assign(whole.begin(), middle);
  part[1].assign(middle, whole.end());
}

}  // namespace

absl::Status Bisection::Check(const std::vector<std::string>& nodes, const BisectionOptions& options) {
  const auto bad = [](auto... what) { return absl::InvalidArgumentError(absl::StrCat(what...)); };
  if (nodes.size() < kLeastNodes)
    return bad("a diagnosis compares nodes with each other and needs at least ", kLeastNodes,
               " of them; add some that are believed healthy");
  std::set<std::string> seen;
  for (const std::string& node : nodes) {
    if (!seen.insert(node).second) return bad("node ", node, " is named twice");
  }
  if (options.group_size < 2 || options.group_size > 1024)
    return bad("group_size is ", options.group_size, "; a diagnosis needs a probe of 2 to 1024 nodes");
  if (options.max_concurrent_runs < 1) return bad("max_concurrent_runs must be at least 1");
  if (options.rounds < 1 || options.rounds > 64) return bad("rounds is ", options.rounds, "; 1 to 64");
  if (!(options.slow_ratio >= 0.3 && options.slow_ratio <= 0.99))
    return bad("slow_ratio is ", options.slow_ratio, "; 0.3 to 0.99");
  return absl::OkStatus();
}

// A faulty node costs two tests a level and one to confirm it. A faulty pair costs two a level until its
// nodes are parted, then two for each halving of either side, and one to confirm it: at most four a level and
// two.
BisectionCost Bisection::CostOf(size_t nodes, const BisectionOptions& options) {
  const size_t size = GroupSize(nodes, options);
  const size_t groups = CeilDivide(nodes, size);
  const size_t depth = 4 * CeilLog2(size > 2 ? size + 1 : size) + 2;  // a rest of one joins a larger group
  const size_t faults =
      options.max_faults != 0 ? options.max_faults : std::max<size_t>(4, CeilDivide(nodes, 4));
  const size_t followups = faults * depth;
  // Each group that passed is partner to one test at least; a quarter of them pass.
  const size_t at_once = std::max<size_t>(1, std::min(options.max_concurrent_runs, groups / 4));
  const size_t firsts = CeilDivide(groups, options.max_concurrent_runs) + 1;
  BisectionCost cost;
  cost.runs_if_healthy = options.rounds * groups;
  cost.max_runs = cost.runs_if_healthy + followups;
  cost.waves_if_healthy = options.rounds * firsts;
  cost.max_waves = options.rounds * (firsts + depth) + CeilDivide(followups, at_once);
  return cost;
}

Bisection::Bisection(const std::vector<std::string>& nodes, BisectionOptions options)
    : options_(options), cost_(CostOf(nodes.size(), options)), nodes_(Scattered(nodes)) {}

bool Bisection::IsSlow(const Outcome& outcome) const {
  return outcome.failed || outcome.bandwidth < options_.slow_ratio * reference_;
}

bool Bisection::BeginRound() {
  if (rounds_ >= options_.rounds || nodes_.size() < 2) return false;
  ++rounds_;
  group_size_ = GroupSize(nodes_.size(), options_);
  std::set<std::string> placed;
  for (const std::vector<size_t>& group : RoundGroups(nodes_.size(), group_size_, rounds_)) {
    Task task;
    for (const size_t index : group) task.members.push_back(nodes_[index]);
    placed.insert(task.members.begin(), task.members.end());
    queue_.push_back(std::move(task));
  }
  // The odd one meets a node that has passed meanwhile.
  for (const std::string& node : nodes_) {
    if (placed.count(node) == 0) queue_.push_back({Step::kFirst, {node}});
  }
  return true;
}

// Those of first groups before those that passed in a smaller set, each in its turn. `exist` says how many
// there would be if none were in use.
Bisection::Ids Bisection::ChoosePartners(const Task& task, size_t wanted, const std::set<std::string>& used,
                                         size_t* exist) {
  Ids chosen;
  *exist = 0;
  for (const std::set<std::string>* from : {&good_, &passed_}) {
    if (*exist >= wanted || from->empty()) continue;
    const size_t size = from->size();
    auto it = std::next(from->begin(), static_cast<std::ptrdiff_t>(next_partner_++ % size));
    for (size_t i = 0; i < size; ++i, ++it) {
      if (it == from->end()) it = from->begin();
      if (from == &passed_ && good_.count(*it) != 0) continue;
      if (unfit_.count(*it) != 0 || Contains(task.avoid, *it) || Contains(task.members, *it)) continue;
      ++*exist;
      if (chosen.size() < wanted && used.count(*it) == 0) chosen.push_back(*it);
    }
  }
  return chosen;
}

// False: it has to wait for nodes that are in use.
bool Bisection::Begin(Task& task, std::set<std::string>& used, std::vector<Test>& wave) {
  if (std::any_of(task.members.begin(), task.members.end(),
                  [&used](const std::string& id) { return used.count(id) != 0; }))
    return false;
  const size_t wanted = group_size_ - std::min(group_size_, task.members.size());
  size_t exist = 0;
  task.partners = wanted == 0 ? Ids() : ChoosePartners(task, wanted, used, &exist);
  if (task.partners.size() < std::min(wanted, exist)) return false;
  if (task.members.size() + task.partners.size() < 2) return false;
  Test& test = wave.emplace_back();
  test.id = next_test_++;
  test.participants = Joined(task.members, task.partners);
  test.suspects = task.members.size();
  used.insert(test.participants.begin(), test.participants.end());
  running_[test.id] = std::move(task);
  return true;
}

std::vector<Bisection::Test> Bisection::NextWave() {
  std::vector<Test> wave;
  while (wave.empty()) {
    JudgeFirsts();
    if (queue_.empty() && !BeginRound()) return wave;
    if (waves_ >= cost_.max_waves + declined_ || runs() >= cost_.max_runs) {
      GiveUpAll();
      rounds_ = options_.rounds;
      continue;
    }
    std::set<std::string> used;
    std::deque<Task> waiting;
    for (Task& task : queue_) {
      const bool has_room = wave.size() < std::min(options_.max_concurrent_runs, cost_.max_runs - runs());
      if (!has_room || !Begin(task, used, wave)) waiting.push_back(std::move(task));
    }
    queue_ = std::move(waiting);
    // Singles of the first round wait until the others are judged; nobody else could become good.
    if (wave.empty() && firsts_.empty()) GiveUpAll();
  }
  ++waves_;
  return wave;
}

void Bisection::GiveUpAll() {
  for (Task& task : std::exchange(queue_, {})) {
    if (task.step == Step::kHalf) {
      const Split& split = splits_[task.parent];
      const size_t other = 1 - task.side;
      if (split.known == 1 && split.is_slow[other]) AddVerdict(Kind::kUndecided, split.side[other], {});
    }
    AddVerdict(Kind::kUndecided, std::move(task.members), {});
  }
}

// The reference needs all groups of a round.
void Bisection::JudgeFirsts() {
  if (firsts_.empty()) return;
  const bool waits = std::any_of(queue_.begin(), queue_.end(), [](const Task& task) {
    return task.step == Step::kFirst && task.members.size() > 1;
  });
  if (waits) return;
  if (reference_ == 0) {
    std::vector<double> values;
    for (const auto& [task, outcome] : firsts_) {
      if (!outcome.failed) values.push_back(outcome.bandwidth);
    }
    std::sort(values.rbegin(), values.rend());
    reference_ = values.empty() ? options_.expected : std::max(options_.expected, values[values.size() / 4]);
    for (size_t i = 0; i < history_.size(); ++i) history_[i].is_slow = IsSlow(history_[i].outcome);
  }
  for (const auto& [task, outcome] : std::exchange(firsts_, {})) Conclude(task, IsSlow(outcome));
}

void Bisection::Record(size_t test, const Outcome& outcome) {
  const auto it = running_.find(test);
  if (it == running_.end()) return;
  const Task task = std::move(it->second);
  running_.erase(it);
  history_.push_back({test, Joined(task.members, task.partners), outcome, IsSlow(outcome)});
  if (task.step == Step::kFirst && task.partners.empty()) {
    firsts_.emplace_back(task, outcome);
  } else {
    Conclude(task, IsSlow(outcome));
  }
}

void Bisection::RecordDeclined(size_t test, const std::string& decliner) {
  const auto it = running_.find(test);
  if (it == running_.end()) return;
  Task task = std::move(it->second);
  running_.erase(it);
  const auto drop = [&decliner](Ids& ids) {
    ids.erase(std::remove(ids.begin(), ids.end(), decliner), ids.end());
  };
  unfit_.insert(decliner);
  ++declined_;
  if (Contains(nodes_, decliner)) {
    drop(nodes_);
    verdicts_.push_back({Kind::kNotTested, {decliner}, {}, 0, {}});
  }
  drop(task.members);
  task.partners.clear();
  if (!task.members.empty()) {
    queue_.push_back(std::move(task));
  } else {
    // A half that is gone is not what was slow.
    Conclude(task, false);
  }
}

void Bisection::Conclude(const Task& task, bool is_slow) {
  if (!is_slow) {
    std::set<std::string>& passed = task.step == Step::kFirst ? good_ : passed_;
    passed.insert(task.members.begin(), task.members.end());
  }
  switch (task.step) {
    case Step::kFirst:
      if (!is_slow) return;
      if (task.members.size() > 1) return StartSplit(task.members);
      queue_.push_back({Step::kConfirm, task.members, {}, task.partners});
      return;
    case Step::kHalf:
      return FinishHalf(task, is_slow);
    case Step::kConfirm:
      if (is_slow) return AddVerdict(Kind::kNode, task.members, {});
      return StartMix(task.members, task.avoid);
    case Step::kMix:
      return FinishMix(task, is_slow);
    case Step::kRepeat: {
      const Mix& mix = mixes_[task.parent];
      const bool is_pair = mix.a.size() == 1 && mix.b.size() == 1;
      return AddVerdict(!is_slow ? Kind::kTransient : is_pair ? Kind::kPair : Kind::kBoundary, mix.a, mix.b);
    }
  }
}

void Bisection::StartSplit(const Ids& members) {
  for (const std::string& id : members) {
    good_.erase(id);
    passed_.erase(id);
  }
  Split split;
  Halve(members, split.side);
  const size_t index = splits_.size();
  for (const size_t side : {0, 1}) queue_.push_back({Step::kHalf, split.side[side], {}, {}, index, side});
  splits_.push_back(std::move(split));
}

void Bisection::FinishHalf(const Task& task, bool is_slow) {
  Split& split = splits_[task.parent];
  split.side[task.side] = task.members;  // without those that declined
  split.partners[task.side] = task.partners;
  split.is_slow[task.side] = is_slow;
  if (++split.known < 2) return;
  const Split done = split;  // what follows adds splits
  for (const size_t side : {0, 1}) {
    if (!done.is_slow[side]) continue;
    if (done.side[side].size() > 1) {
      StartSplit(done.side[side]);
    } else {
      queue_.push_back({Step::kConfirm, done.side[side], {}, done.partners[side]});
    }
  }
  if (!done.is_slow[0] && !done.is_slow[1]) StartMix(done.side[0], done.side[1]);
}

void Bisection::StartMix(Ids a, Ids b) {
  if (a.empty() || b.empty()) return;
  unfit_.insert(a.begin(), a.end());
  unfit_.insert(b.begin(), b.end());
  const size_t index = mixes_.size();
  Mix mix;
  const bool a_is_larger = a.size() >= b.size();
  const Ids& larger = a_is_larger ? a : b;
  mix.rest = a_is_larger ? b : a;
  if (larger.size() == 1) {
    queue_.push_back({Step::kRepeat, Joined(a, b), {}, {}, index});
  } else {
    Halve(larger, mix.part);
    for (const size_t side : {0, 1})
      queue_.push_back({Step::kMix, Joined(mix.part[side], mix.rest), {}, {}, index, side});
  }
  mix.a = std::move(a);
  mix.b = std::move(b);
  mixes_.push_back(std::move(mix));
}

void Bisection::FinishMix(const Task& task, bool is_slow) {
  Mix& mix = mixes_[task.parent];
  mix.is_slow[task.side] = is_slow;
  if (++mix.known < 2) return;
  const Mix done = mix;
  for (const size_t side : {0, 1}) {
    if (done.is_slow[side]) StartMix(done.part[side], done.rest);
  }
  if (!done.is_slow[0] && !done.is_slow[1])
    queue_.push_back({Step::kRepeat, Joined(done.a, done.b), {}, {}, task.parent});
}

void Bisection::AddVerdict(Kind kind, Ids nodes, Ids others) {
  const bool is_known = std::any_of(verdicts_.begin(), verdicts_.end(), [&](const Verdict& verdict) {
    return verdict.kind == kind && verdict.nodes == nodes && verdict.others == others;
  });
  if (is_known) return;
  Verdict verdict{kind, std::move(nodes), std::move(others), 0, {}};
  const Ids all = Joined(verdict.nodes, verdict.others);
  if (kind == Kind::kNode) {
    unfit_.insert(all.begin(), all.end());
    nodes_.erase(std::remove_if(nodes_.begin(), nodes_.end(),
                                [&all](const std::string& id) { return Contains(all, id); }),
                 nodes_.end());
  } else if (kind == Kind::kTransient) {
    for (const std::string& id : all) {
      if (Contains(nodes_, id)) unfit_.erase(id);
    }
  }
  for (const Evidence& evidence : history_) {
    const auto is_in = [&evidence](const std::string& id) { return Contains(evidence.participants, id); };
    const bool has_all = std::all_of(all.begin(), all.end(), is_in);
    const bool has_any = std::any_of(all.begin(), all.end(), is_in);
    if (has_all && evidence.is_slow && !evidence.outcome.failed && reference_ > 0)
      verdict.ratio = std::max(verdict.ratio, evidence.outcome.bandwidth / reference_);
    if ((evidence.is_slow ? has_all : has_any) && verdict.evidence.size() < kMaxEvidence)
      verdict.evidence.push_back(evidence);
  }
  verdicts_.push_back(std::move(verdict));
}

std::vector<Bisection::Verdict> Bisection::Verdicts() const {
  std::vector<Verdict> sorted = verdicts_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Verdict& a, const Verdict& b) { return a.kind < b.kind; });
  return sorted;
}

}  // namespace weft
