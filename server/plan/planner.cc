#include "server/plan/planner.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/id.h"
#include "server/plan/rounds.h"

namespace weft {
namespace {

constexpr size_t kMinFollowups = 4;     // of a round, where a tenth of its runs is less
constexpr size_t kFollowupShare = 10;   // one for so many runs of the round
constexpr size_t kPartnersTried = 256;  // bounds the search where nearly all are taken
constexpr size_t kAheadTried = 16;
constexpr int kFollowupsTried = 300;  // times a period at most

std::map<std::string, std::vector<std::string>> ScatteredCohorts(
    const std::map<std::string, const PlanNode*>& nodes) {
  std::map<std::string, std::vector<std::pair<uint64_t, std::string>>> keyed;
  for (const auto& [id, node] : nodes) keyed[node->cohort].emplace_back(ScatterKey(node->cohort, id), id);
  std::map<std::string, std::vector<std::string>> cohorts;
  for (auto& [cohort, ids] : keyed) {
    std::sort(ids.begin(), ids.end());
    std::vector<std::string>& scattered = cohorts[cohort];
    scattered.reserve(ids.size());
    for (auto& [key, id] : ids) scattered.push_back(std::move(id));
  }
  return cohorts;
}

// Pairs of those that stand near each other and fit, else of neighbours; with an odd number the last is left
// out.
template <typename Fits>
std::vector<std::pair<std::string, std::string>> PairUp(std::vector<std::string> ids, const Fits& fits) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (size_t i = 0; i + 1 < ids.size(); i += 2) {
    const size_t end = std::min(ids.size(), i + 1 + kAheadTried);
    for (size_t j = i + 1; j < end; ++j) {
      if (!fits(ids[i], ids[j])) continue;
      std::swap(ids[i + 1], ids[j]);
      break;
    }
    pairs.emplace_back(ids[i], ids[i + 1]);
  }
  return pairs;
}

}  // namespace

absl::Duration CoverageAge(absl::Time last_success, absl::Time now) {
  return std::max(now - last_success, absl::ZeroDuration());
}

void Planner::SetLastRound(absl::string_view cohort, uint64_t round) {
  uint64_t& last = rounds_[std::string(cohort)];
  last = std::max(last, round);
}

// A wall clock that was set back does not stop rounds.
bool Planner::RoundIsDue(absl::Time now) const {
  return now >= next_round_ || next_round_ - now > options_.period;
}

// Rounds keep their beat; one that was missed altogether is not made up for.
void Planner::SetNextRound(absl::Time now) {
  const absl::Time on_beat = next_round_ + options_.period;
  const bool keeps_beat = on_beat > now && on_beat <= now + options_.period;
  next_round_ = keeps_beat ? on_beat : now + options_.period;
}

size_t Planner::FollowupsLeft() const {
  const size_t most = std::max(kMinFollowups, round_runs_ / kFollowupShare);
  return most - std::min(most, round_followups_);
}

bool Planner::WantsToPlan(absl::Time now) const {
  if (RoundIsDue(now) || !waiting_.empty()) return true;
  if (has_new_requests_ && now >= next_followup_ && FollowupsLeft() > 0) return true;
  for (const auto& [cohort, spares] : spares_) {
    const auto ready =
        std::count_if(spares.begin(), spares.end(), [now](const auto& spare) { return spare.second <= now; });
    if (static_cast<size_t>(ready) >= options_.group_size) return true;
  }
  return false;
}

Planner::Memory& Planner::Remembered(const std::string& id, absl::Time now) {
  const auto [it, is_new] = memory_.try_emplace(id);
  Memory& memory = it->second;
  if (is_new) {
    memory.tokens = options_.run_burst;
  } else if (now > memory.filled) {
    const double periods = absl::FDivDuration(now - memory.filled, options_.period);
    memory.tokens = std::min(options_.run_burst, memory.tokens + options_.runs_per_period * periods);
  }
  memory.filled = now;
  return memory;
}

bool Planner::MetLately(const std::string& cohort, const std::string& a, const std::string& b) const {
  const auto memory = memory_.find(a);
  if (memory == memory_.end()) return false;
  const std::array<uint64_t, 8>& met = memory->second.met;
  return std::find(met.begin(), met.end(), ScatterKey(cohort, b)) != met.end();
}

void Planner::NoteBegun(WaitingRun run, absl::Time now) {
  begun_.push_back({std::move(run.participants), std::move(run.cohort), now, std::move(run.request)});
  const Ids& ids = begun_.back().participants;
  for (const std::string& id : ids) {
    Memory& memory = Remembered(id, now);
    memory.tokens -= 1;
    memory.begun = begun_.size();
    if (ids.size() != 2) continue;
    const std::string& peer = ids[ids[0] == id ? 1 : 0];
    memory.met[memory.next_met++ % memory.met.size()] = ScatterKey(begun_.back().cohort, peer);
  }
}

void Planner::SetRequests(std::vector<ProbeRequest> requests) {
  requests_.clear();
  if (options_.group_size != 2) return;
  for (ProbeRequest& request : requests) {
    if (!request.probe.empty() && request.probe != options_.spec.name) continue;
    if (request.node != request.peer) requests_.push_back(std::move(request));
  }
  has_new_requests_ = !requests_.empty();
}

void Planner::Decline(absl::string_view node_id, absl::Time now) {
  const std::string decliner(node_id);
  Memory& memory = Remembered(decliner, now);
  memory.declined = now;
  if (memory.begun == 0) return;  // an earlier round's
  BegunRun& run = begun_[memory.begun - 1];
  std::map<std::string, absl::Time>& spares = spares_[run.cohort];
  spares.erase(decliner);
  if (!run.declined) {
    run.declined = true;
    for (const std::string& id : run.participants) Remembered(id, now).tokens += 1;
    if (run.request && std::find(requests_.begin(), requests_.end(), *run.request) == requests_.end())
      requests_.insert(requests_.begin(), *run.request);
  }
  for (const std::string& id : run.participants) {
    const Memory& own = Remembered(id, now);
    if (!own.regrouped && own.declined < run.plan_time) spares.emplace(id, now + options_.regroup_after);
  }
}

void Planner::ForgetNodes(const NodeIndex& nodes, absl::Time now) {
  for (auto it = memory_.begin(); it != memory_.end();) {
    Memory& memory = Remembered(it->first, now);
    memory.followups = 0;
    memory.regrouped = false;
    memory.begun = 0;
    const bool full = memory.tokens >= options_.run_burst;
    it = full && nodes.count(it->first) == 0 ? memory_.erase(it) : std::next(it);
  }
}

void Planner::AddRun(Ids participants, const std::string& cohort) {
  WaitingRun& run = waiting_.emplace_back();
  run.participants = std::move(participants);
  run.cohort = cohort;
  run.round = rounds_[cohort];
}

void Planner::BeginRound(const NodeIndex& nodes, const std::set<std::string>& busy_nodes, absl::Time now) {
  dropped_runs_ += waiting_.size();
  waiting_.clear();
  spares_.clear();
  begun_.clear();
  ForgetNodes(nodes, now);
  const Cohorts cohorts = ScatteredCohorts(nodes);
  for (const auto& [cohort, ids] : cohorts) {
    if (ids.size() < std::min<size_t>(options_.group_size, 2)) continue;
    ++rounds_[cohort];
    ++rounds_begun_;
  }
  std::set<std::string> taken;
  ServeRequests(nodes, cohorts, busy_nodes, requests_.size(), now, taken,
                [](const std::string&, const std::string&) { return true; });
  for (const auto& [cohort, ids] : cohorts) BeginCohortRound(cohort, ids, taken, nodes);
  round_runs_ = waiting_.size();
  round_followups_ = 0;
}

void Planner::BeginCohortRound(const std::string& cohort, const Ids& scattered,
                               const std::set<std::string>& taken, const NodeIndex& nodes) {
  if (scattered.size() < std::min<size_t>(options_.group_size, 2)) return;
  std::vector<bool> placed(scattered.size());
  for (size_t i = 0; i < scattered.size(); ++i) placed[i] = taken.count(scattered[i]) != 0;
  for (const std::vector<size_t>& group :
       RoundGroups(scattered.size(), options_.group_size, rounds_[cohort])) {
    if (std::any_of(group.begin(), group.end(), [&](size_t i) { return placed[i]; })) continue;
    Ids ids;
    for (const size_t index : group) {
      ids.push_back(scattered[index]);
      placed[index] = true;
    }
    AddRun(std::move(ids), cohort);
  }
  Ids left;
  for (size_t i = 0; i < scattered.size(); ++i) {
    if (!placed[i]) left.push_back(scattered[i]);
  }
  AddPairs(std::move(left), cohort, nodes);
}

void Planner::AddPairs(Ids ids, const std::string& cohort, const NodeIndex& nodes) {
  const auto fits = [&](const std::string& a, const std::string& b) {
    return !(nodes.at(a)->suspect && nodes.at(b)->suspect) && !MetLately(cohort, a, b);
  };
  const bool swap = rounds_[cohort] % 2 != 0;
  for (auto& [first, second] : PairUp(std::move(ids), fits)) {
    if (swap) std::swap(first, second);
    AddRun({std::move(first), std::move(second)}, cohort);
  }
}

// The partner that tells most: none that is asked about itself, and rather one that is idle and was not met
// lately. Empty: there is none.
template <typename Usable>
std::string Planner::PartnerFor(const PlanNode& node, const Ids& scattered,
                                const std::set<std::string>& asked_about,
                                const std::set<std::string>& busy_nodes, const NodeIndex& nodes,
                                absl::Time now, const Usable& usable) const {
  const auto round = rounds_.find(node.cohort);
  if (round == rounds_.end()) return "";
  const auto penalty = [&](const std::string& id) {
    const auto memory = memory_.find(id);
    const bool holds_job = memory != memory_.end() && now - memory->second.declined < 2 * options_.period;
    return 4 * static_cast<int>(holds_job) + 2 * static_cast<int>(MetLately(node.cohort, node.id, id)) +
           static_cast<int>(busy_nodes.count(id) != 0);
  };
  const uint64_t turn = ScatterKey(node.cohort, node.id) + round->second * 0x9e3779b97f4a7c15u;
  const auto start = static_cast<size_t>(turn % scattered.size());
  const std::string* best = nullptr;
  int least = 0;
  for (size_t i = 0; i < std::min(scattered.size(), kPartnersTried); ++i) {
    const std::string& id = scattered[(start + i) % scattered.size()];
    if (id == node.id || nodes.at(id)->suspect || asked_about.count(id) != 0 || !usable(id)) continue;
    const int own = penalty(id);
    if (best == nullptr || own < least) {
      best = &id;
      least = own;
    }
    if (least == 0) break;
  }
  return best == nullptr ? "" : *best;
}

template <typename MayMeet>
void Planner::ServeRequests(const NodeIndex& nodes, const Cohorts& cohorts,
                            const std::set<std::string>& busy_nodes, size_t limit, absl::Time now,
                            std::set<std::string>& taken, const MayMeet& may_meet) {
  has_new_requests_ = false;
  std::set<std::string> asked_about;
  for (const ProbeRequest& request : requests_) asked_about.insert({request.node, request.peer});
  const auto is_free = [&](const std::string& id) { return nodes.count(id) != 0 && taken.count(id) == 0; };
  std::vector<ProbeRequest> kept;
  for (ProbeRequest& request : requests_) {
    std::string peer = request.peer;
    if (limit > 0 && is_free(request.node)) {
      const PlanNode& node = *nodes.at(request.node);
      if (peer.empty()) {
        peer = PartnerFor(node, cohorts.at(node.cohort), asked_about, busy_nodes, nodes, now,
                          [&](const std::string& id) { return is_free(id) && may_meet(node.id, id); });
      }
      if (is_free(peer) && nodes.at(peer)->cohort == node.cohort && may_meet(node.id, peer)) {
        taken.insert({request.node, peer});
        const bool swap = rounds_[node.cohort] % 2 != 0;
        AddRun(swap ? Ids{peer, request.node} : Ids{request.node, peer}, node.cohort);
        waiting_.back().request = std::move(request);
        --limit;
        continue;
      }
    }
    kept.push_back(std::move(request));
  }
  requests_ = std::move(kept);
}

void Planner::AddFollowups(const NodeIndex& nodes, const std::set<std::string>& busy_nodes, absl::Time now) {
  next_followup_ = now + options_.period / kFollowupsTried;
  std::set<std::string> taken = busy_nodes;
  for (const WaitingRun& run : waiting_) taken.insert(run.participants.begin(), run.participants.end());
  for (const ProbeRequest& request : requests_) {
    if (Remembered(request.node, now).followups >= options_.max_followups_per_round)
      taken.insert(request.node);
  }
  const auto may_meet = [&](const std::string& id, const std::string& peer) {
    const bool asked_for = std::any_of(requests_.begin(), requests_.end(), [&](const ProbeRequest& request) {
      return request.node == id && request.peer == peer;
    });
    return Remembered(id, now).tokens >= 1 && Remembered(peer, now).tokens >= 1 &&
           (asked_for || !MetLately(nodes.at(id)->cohort, id, peer));
  };
  const size_t before = waiting_.size();
  ServeRequests(nodes, ScatteredCohorts(nodes), busy_nodes, FollowupsLeft(), now, taken, may_meet);
  for (size_t i = before; i < waiting_.size(); ++i) {
    ++Remembered(waiting_[i].request->node, now).followups;
    for (const std::string& id : waiting_[i].participants) spares_[waiting_[i].cohort].erase(id);
  }
  round_followups_ += waiting_.size() - before;
  followups_ += waiting_.size() - before;
}

void Planner::RegroupSpares(const NodeIndex& nodes, absl::Time now) {
  const size_t size = options_.group_size;
  for (auto& [cohort, spares] : spares_) {
    std::vector<std::pair<uint64_t, std::string>> keyed;
    for (const auto& [id, ready] : spares) {
      const auto node = nodes.find(id);
      if (ready <= now && node != nodes.end() && node->second->cohort == cohort)
        keyed.emplace_back(ScatterKey(cohort, id) * (2 * rounds_[cohort] + 1), id);
    }
    std::sort(keyed.begin(), keyed.end());
    keyed.resize(keyed.size() - keyed.size() % size);
    Ids ids;
    for (auto& [key, id] : keyed) {
      Remembered(id, now).regrouped = true;
      spares.erase(id);
      ids.push_back(std::move(id));
    }
    if (size == 2) {
      AddPairs(std::move(ids), cohort, nodes);
      continue;
    }
    for (auto first = ids.begin(); first != ids.end(); first += static_cast<ptrdiff_t>(size))
      AddRun(Ids(first, first + static_cast<ptrdiff_t>(size)), cohort);
  }
}

// Stable: requests keep their order, which is the detector's, and runs of equal urgency that of the round.
void Planner::SortByUrgency(const NodeIndex& nodes) {
  using Urgency = std::tuple<int, absl::Time>;  // less goes first
  const auto urgency = [&nodes](const WaitingRun& run) -> Urgency {
    if (run.request) return {0, absl::InfinitePast()};
    bool suspect = false;
    absl::Time stalest = absl::InfiniteFuture();
    for (const std::string& id : run.participants) {
      const auto it = nodes.find(id);
      if (it == nodes.end()) continue;
      suspect |= it->second->suspect;
      stalest = std::min(stalest, it->second->last_success);
    }
    return {suspect ? 1 : 2, stalest};
  };
  std::vector<std::pair<Urgency, size_t>> order;
  order.reserve(waiting_.size());
  for (size_t i = 0; i < waiting_.size(); ++i) order.emplace_back(urgency(waiting_[i]), i);
  std::sort(order.begin(), order.end());
  std::vector<WaitingRun> sorted;
  sorted.reserve(waiting_.size());
  for (const auto& [least, place] : order) sorted.push_back(std::move(waiting_[place]));
  waiting_ = std::move(sorted);
}

Run Planner::MakeRun(const WaitingRun& waiting, const NodeIndex& nodes, absl::Time now) const {
  Run run;
  run.id = TimeOrderedUuid(now);
  run.spec = options_.spec;
  run.participants = waiting.participants;
  run.cohort = waiting.cohort;
  run.round = waiting.round;
  run.plan_time = now;
  run.in_maintenance = std::any_of(run.participants.begin(), run.participants.end(),
                                   [&](const std::string& id) { return nodes.at(id)->in_maintenance; });
  return run;
}

std::vector<Run> Planner::Plan(const std::vector<PlanNode>& available,
                               const std::set<std::string>& busy_nodes, size_t active_runs, absl::Time now) {
  std::vector<Run> runs;
  if (!WantsToPlan(now)) return runs;
  NodeIndex nodes;
  for (const PlanNode& node : available) nodes[node.id] = &node;
  if (RoundIsDue(now)) {
    SetNextRound(now);
    BeginRound(nodes, busy_nodes, now);
  } else if (has_new_requests_ && now >= next_followup_) {
    AddFollowups(nodes, busy_nodes, now);
  }
  RegroupSpares(nodes, now);
  SortByUrgency(nodes);
  std::set<std::string> taken;  // by this call; the runs of one round may share nodes
  const auto is_free = [&](const std::string& id) {
    return nodes.count(id) != 0 && busy_nodes.count(id) == 0 && taken.count(id) == 0;
  };
  std::vector<WaitingRun> still_waiting;
  for (WaitingRun& waiting : waiting_) {
    const std::vector<std::string>& ids = waiting.participants;
    if (active_runs + runs.size() >= options_.max_concurrent_runs ||
        !std::all_of(ids.begin(), ids.end(), is_free)) {
      still_waiting.push_back(std::move(waiting));
      continue;
    }
    taken.insert(ids.begin(), ids.end());
    runs.push_back(MakeRun(waiting, nodes, now));
    NoteBegun(std::move(waiting), now);
  }
  waiting_ = std::move(still_waiting);
  return runs;
}

}  // namespace weft
