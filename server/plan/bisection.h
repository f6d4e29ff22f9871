// Finds the slow parts among given nodes on demand: adaptive group testing with a cost that is known before.
// Pure: results in, tests and verdicts out; no clock; used by one thread.
//
// Nodes are put into groups of the probe's size, which run together. A group that is slow or fails is split;
// its halves are tested, filled up to the size with nodes that passed, so that all figures compare. A single
// node that is slow is tested once more with other good partners before it is blamed; slow with the one and
// good with the other means that the fault lies between. So do halves that both pass: then parts of one half
// run with the other half until two nodes are left, whose run is repeated before the pair is blamed.
//
// Slow is what reaches less than `slow_ratio` of the reference: the upper quartile of the first round's runs,
// or `expected` where that is more. So more than a quarter of the first groups have to be healthy unless
// `expected` is known.
//
// What it does not see: a slow pair whose two nodes no run put together. Each round of groups meets other
// pairs; a slow node shows in every round.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace weft {

struct BisectionOptions {
  size_t group_size = 2;            // 2 to 1,024; groups are smaller where that leaves fewer than two of them
  size_t max_concurrent_runs = 16;  // at least 1
  size_t rounds = 1;                // of groups that meet anew, 1 to 64
  size_t max_faults = 0;     // parts that the budget reaches for; 0: a quarter of the nodes, at least 4
  double slow_ratio = 0.85;  // 0.3 to 0.99
  double expected = 0;       // of a healthy run in the probe's unit; 0: not known
};

// Runs that a busy node declined are not counted, and each decline may add a wave.
struct BisectionCost {
  size_t runs_if_healthy = 0;
  size_t max_runs = 0;
  size_t waves_if_healthy = 0;  // sets of runs at once, one after the other
  size_t max_waves = 0;
  bool operator==(const BisectionCost&) const = default;
};

class Bisection {
 public:
  enum class Kind {
    kNode,       // slow with two sets of good partners
    kPair,       // slow with each other, twice, and good with others
    kBoundary,   // two sets slow together, twice, while their parts are not
    kTransient,  // slow or failed once, good when repeated
    kUndecided,  // the budget ended, or there was no good partner
    kNotTested,  // declined: busy
  };
  struct Outcome {
    bool failed = false;   // hung, crashed or refused; `bandwidth` means nothing
    double bandwidth = 0;  // of the slowest participant and NIC
  };
  // A group to run now.
  struct Test {
    size_t id = 0;
    std::vector<std::string> participants;
    size_t suspects = 0;  // how many of them, from the front, are tested; the rest passed before
  };
  struct Evidence {
    size_t test = 0;
    std::vector<std::string> participants;
    Outcome outcome;
    bool is_slow = false;
  };
  struct Verdict {
    Kind kind = Kind::kNode;
    std::vector<std::string> nodes;
    std::vector<std::string> others;  // the other side of a pair or boundary
    double ratio = 0;                 // the best of its slow runs over the reference; 0 if all failed
    std::vector<Evidence> evidence;   // slow runs and some good ones, in order; at most 16
  };

  // kInvalidArgument: fewer than four nodes, one twice, or an option out of range.
  static absl::Status Check(const std::vector<std::string>& nodes, const BisectionOptions& options);
  // What it costs at most, whatever comes; both arguments have passed Check.
  static BisectionCost CostOf(size_t nodes, const BisectionOptions& options);

  // Both arguments have passed Check.
  Bisection(const std::vector<std::string>& nodes, BisectionOptions options);

  // The tests to run now, no node in two of them. Empty: done. Record all of them before the next call.
  std::vector<Test> NextWave();
  void Record(size_t test, const Outcome& outcome);
  // `decliner` would not run; it is left out from now on, and the others are tested without it.
  void RecordDeclined(size_t test, const std::string& decliner);

  BisectionCost cost() const { return cost_; }
  size_t runs() const { return history_.size(); }
  // Of a healthy run; 0 before the first round has ended.
  double reference() const { return reference_; }
  // So far; final once NextWave gave nothing. Nodes, pairs and boundaries first.
  std::vector<Verdict> Verdicts() const;

 private:
  using Ids = std::vector<std::string>;
  enum class Step { kFirst, kHalf, kConfirm, kMix, kRepeat };
  // A test that waits or runs.
  struct Task {
    Step step = Step::kFirst;
    Ids members;
    Ids partners = {};  // filled in when it begins
    Ids avoid = {};     // partners that it must not have
    size_t parent = 0;  // of kHalf and kMix: in splits_ or mixes_; of kRepeat: in mixes_
    size_t side = 0;    // of kHalf and kMix
  };
  // A slow set in halves.
  struct Split {
    Ids side[2];
    Ids partners[2];
    bool is_slow[2] = {false, false};
    size_t known = 0;
  };
  // Two sets that are slow together and good alone; `part` are the halves of the larger.
  struct Mix {
    Ids a, b;
    Ids part[2];
    Ids rest;
    bool is_slow[2] = {false, false};
    size_t known = 0;
  };

  bool BeginRound();
  bool Begin(Task& task, std::set<std::string>& used, std::vector<Test>& wave);
  Ids ChoosePartners(const Task& task, size_t wanted, const std::set<std::string>& used, size_t* exist);
  void GiveUpAll();
  void JudgeFirsts();
  void Conclude(const Task& task, bool is_slow);
  void StartSplit(const Ids& members);
  void FinishHalf(const Task& task, bool is_slow);
  void StartMix(Ids a, Ids b);
  void FinishMix(const Task& task, bool is_slow);
  void AddVerdict(Kind kind, Ids nodes, Ids others);
  bool IsSlow(const Outcome& outcome) const;

  const BisectionOptions options_;
  const BisectionCost cost_;
  Ids nodes_;  // that are neither blamed nor busy, in scattered order
  size_t group_size_ = 2;
  size_t rounds_ = 0;
  size_t waves_ = 0;
  size_t declined_ = 0;
  size_t next_test_ = 1;
  size_t next_partner_ = 0;
  double reference_ = 0;
  std::deque<Task> queue_;
  std::map<size_t, Task> running_;
  std::vector<std::pair<Task, Outcome>> firsts_;  // of this round, not judged before all are there
  std::vector<Split> splits_;
  std::vector<Mix> mixes_;
  std::set<std::string> good_;    // in a first group that passed
  std::set<std::string> passed_;  // passed in a smaller set
  std::set<std::string> unfit_;   // blamed, busy, or part of a pair or boundary
  std::vector<Evidence> history_;
  std::vector<Verdict> verdicts_;
};

}  // namespace weft
