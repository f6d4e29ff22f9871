#include "server/detect/blame.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "server/detect/statistics.h"

namespace weft {
namespace {

constexpr size_t kLeastRuns = 4;
constexpr double kLeastNoise = 0.006;
constexpr double kLeastDeficit = 0.03;
// A dip: how often, and how far down it is equally likely to reach.
constexpr double kDipRate = 0.02;
constexpr double kDipReach = 0.65;
constexpr double kFloor = 1e-3;  // density of what should not happen
// Odds that a part is fine before anything is known.
constexpr double kNodeIsFine = 30;
constexpr double kLinkIsFine = 1000;
constexpr double kLeastShareSlow = 0.7;
constexpr int kLeastPartners = 2;  // for a node
constexpr int kLeastLinkRuns = 2;
constexpr double kLeastOddsOfASuspect = -4;  // logarithm
constexpr size_t kMostSuspects = 8;          // that are not blamed

// Log density of a run's share of the reference, given the least capacity of its parts.
class RunLaw {
 public:
  explicit RunLaw(double noise) : noise_(noise) {}
  double Log(double share, double capacity) const {
    const double deviation = (share / capacity - 1) / noise_;
    const double usual = std::exp(-deviation * deviation / 2) / (noise_ * 2.5066) / capacity;
    const bool may_be_dip = share < capacity && share > capacity * (1 - kDipReach);
    return std::log((1 - kDipRate) * usual + (may_be_dip ? kDipRate / kDipReach / capacity : 0) + kFloor);
  }
  // Whether a run is no faster than this capacity lets it be.
  bool Fits(double share, double capacity) const { return share < capacity * (1 + 3 * noise_); }
  double noise() const { return noise_; }

 private:
  double noise_;
};

struct Part {
  PartKind kind;
  size_t node, peer;
  std::vector<size_t> runs;
  double capacity = 1;
  bool is_blamed = false;
};

struct Case {
  double gain = 0;  // log odds that the part is to blame
  Suspect suspect;
  bool is_strong = false;
};

class Inquiry {
 public:
  Inquiry(const std::vector<PairRun>& runs, double reference, double noise) : law_(noise) {
    std::map<std::pair<size_t, size_t>, size_t> index;
    const auto part_of = [&](PartKind kind, size_t node, size_t peer) {
      // A node is its own peer, so keys of nodes and links differ.
      const auto [it, is_new] = index.try_emplace({node, peer}, parts_.size());
      if (is_new) parts_.push_back({kind, node, peer, {}});
      parts_[it->second].runs.push_back(shares_.size());
      return it->second;
    };
    for (const PairRun& run : runs) {
      const auto [low, high] = std::minmax(run.a, run.b);
      used_.push_back({part_of(PartKind::kNode, low, low), part_of(PartKind::kNode, high, high),
                       part_of(PartKind::kLink, low, high)});
      shares_.push_back(run.value / reference);
    }
  }

  void BlameAll() {
    for (size_t round = 0; round < parts_.size(); ++round) {
      size_t best = parts_.size();
      Case strongest;
      for (size_t i = 0; i < parts_.size(); ++i) {
        if (parts_[i].is_blamed) continue;
        const Case one = CaseAgainst(parts_[i]);
        if (one.is_strong && one.gain > strongest.gain) {
          strongest = one;
          best = i;
        }
      }
      if (best == parts_.size()) return;
      SetCapacity(best, strongest.suspect.capacity, true);
      order_.push_back(best);
      LetGo();
    }
  }

  std::vector<Suspect> Suspects() {
    std::vector<Suspect> suspects;
    for (const size_t i : order_) {
      SetCapacity(i, 1, false);
      Case one = CaseAgainst(parts_[i]);
      SetCapacity(i, one.suspect.capacity, true);
      one.suspect.is_blamed = true;
      suspects.push_back(one.suspect);
    }
    std::vector<Case> others;
    for (const Part& part : parts_) {
      if (part.is_blamed) continue;
      const Case one = CaseAgainst(part);
      if (one.gain > kLeastOddsOfASuspect && one.suspect.slow_runs > 0) others.push_back(one);
    }
    std::stable_sort(others.begin(), others.end(),
                     [](const Case& x, const Case& y) { return x.gain > y.gain; });
    for (size_t i = 0; i < std::min(others.size(), kMostSuspects); ++i) suspects.push_back(others[i].suspect);
    return suspects;
  }

 private:
  void SetCapacity(size_t part, double capacity, bool is_blamed) {
    parts_[part].capacity = capacity;
    parts_[part].is_blamed = is_blamed;
  }

  // The least capacity of a run's parts other than `but`.
  double CapacityWithout(size_t run, const Part& but) const {
    double least = 1;
    for (const size_t i : used_[run]) {
      if (&parts_[i] != &but) least = std::min(least, parts_[i].capacity);
    }
    return least;
  }

  Case CaseAgainst(const Part& part) const {
    std::vector<double> others;
    for (const size_t run : part.runs) others.push_back(CapacityWithout(run, part));
    Case best;
    best.gain = -1e9;
    for (const double capacity : Capacities(part, others)) {
      double gain = 0;
      for (size_t k = 0; k < part.runs.size(); ++k) {
        const double share = shares_[part.runs[k]];
        gain += law_.Log(share, std::min(capacity, others[k])) - law_.Log(share, others[k]);
      }
      if (gain > best.gain) {
        best.gain = gain;
        best.suspect.capacity = capacity;
      }
    }
    // The capacity was chosen to fit: that is worth as much as the choice there was.
    const double choice = std::log(std::max(2.0, kDipReach / (2.5066 * law_.noise())));
    best.gain -= choice + std::log(part.kind == PartKind::kNode ? kNodeIsFine : kLinkIsFine);
    Describe(part, others, best);
    return best;
  }

  // Capacities worth a try: each run's own share, and means of neighbours among the sorted shares.
  static void AddMeans(std::vector<double>& shares) {
    std::sort(shares.begin(), shares.end());
    const size_t count = shares.size();
    for (size_t from = 0; from < count; ++from) {
      double sum = shares[from];
      for (size_t to = from + 1; to < count && to < from + 16; ++to) {
        sum += shares[to];
        shares.push_back(sum / static_cast<double>(to - from + 1));
      }
    }
  }
  std::vector<double> Capacities(const Part& part, const std::vector<double>& others) const {
    std::vector<double> shares;
    for (size_t k = 0; k < part.runs.size(); ++k) {
      const double share = shares_[part.runs[k]];
      if (share > 0 && share <= others[k] * (1 - kLeastDeficit)) shares.push_back(share);
    }
    AddMeans(shares);
    return shares;
  }

  void Describe(const Part& part, const std::vector<double>& others, Case& one) const {
    Suspect& suspect = one.suspect;
    suspect.kind = part.kind;
    suspect.node = part.node;
    suspect.peer = part.peer;
    suspect.confidence = 1 / (1 + std::exp(-one.gain));
    std::set<size_t> partners;
    for (size_t k = 0; k < part.runs.size(); ++k) {
      if (others[k] <= suspect.capacity) continue;  // another part holds this run back
      ++suspect.runs;
      if (!law_.Fits(shares_[part.runs[k]], suspect.capacity)) continue;
      ++suspect.slow_runs;
      const Part& a = parts_[used_[part.runs[k]][0]];
      const Part& b = parts_[used_[part.runs[k]][1]];
      partners.insert(a.node == part.node ? b.node : a.node);
    }
    suspect.partners = static_cast<int>(partners.size());
    const bool has_witnesses = part.kind == PartKind::kNode ? suspect.partners >= kLeastPartners
                                                            : suspect.slow_runs >= kLeastLinkRuns;
    one.is_strong = one.gain > 0 && has_witnesses && suspect.capacity <= 1 - kLeastDeficit &&
                    suspect.slow_runs >= kLeastShareSlow * suspect.runs;
  }

  // A part blamed early may be explained by those blamed after it.
  void LetGo() {
    for (size_t k = 0; k + 1 < order_.size();) {
      const size_t i = order_[k];
      const double capacity = parts_[i].capacity;
      SetCapacity(i, 1, false);
      if (CaseAgainst(parts_[i]).is_strong) {
        SetCapacity(i, capacity, true);
        ++k;
      } else {
        order_.erase(order_.begin() + static_cast<std::ptrdiff_t>(k));
      }
    }
  }

  RunLaw law_;
  std::vector<Part> parts_;
  std::vector<std::array<size_t, 3>> used_;  // per run: both nodes, the link
  std::vector<double> shares_;
  std::vector<size_t> order_;
};

// Half of the runs may be slow; those above the middle show the noise.
std::pair<double, double> ReferenceAndNoise(const std::vector<PairRun>& runs) {
  std::vector<double> values;
  for (const PairRun& run : runs) values.push_back(run.value);
  const double reference = MiddleOf(values);
  std::vector<double> above;
  for (const double value : values) {
    if (value >= reference) above.push_back(value / reference - 1);
  }
  return {reference, std::max(kLeastNoise, kMadToSd * MiddleOf(above))};
}

}  // namespace

Blame FindBlame(size_t nodes, const std::vector<PairRun>& runs) {
  std::vector<PairRun> usable;
  for (const PairRun& run : runs) {
    if (run.a != run.b && run.a < nodes && run.b < nodes && std::isfinite(run.value) && run.value >= 0) {
      usable.push_back(run);
    }
  }
  Blame blame;
  if (usable.size() < kLeastRuns) return blame;
  std::tie(blame.reference, blame.noise) = ReferenceAndNoise(usable);
  if (blame.reference <= 0) return blame;
  Inquiry inquiry(usable, blame.reference, blame.noise);
  inquiry.BlameAll();
  blame.suspects = inquiry.Suspects();
  return blame;
}

}  // namespace weft
