#include "bench/sim/group_bisection.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft::sim {

void GroupBisection::BeginRound(const std::vector<size_t>& nodes) {
  next_.clear();
  running_.clear();
  splits_.clear();
  good_.clear();
  const auto size = static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(nodes.size()))));
  const std::vector<size_t> shuffled = Shuffled(nodes);
  for (size_t i = 0; i + 1 < shuffled.size(); i += size) {
    const size_t end = std::min(i + size, shuffled.size());
    AddTest({std::vector<size_t>(shuffled.begin() + static_cast<std::ptrdiff_t>(i),
                                 shuffled.begin() + static_cast<std::ptrdiff_t>(end))});
  }
}

void GroupBisection::AddTest(Test test) {
  std::vector<size_t> participants = test.nodes;
  if (participants.size() == 1) {
    if (good_.empty()) return;  // nobody to test it with
    participants.push_back(good_[next_good_++ % good_.size()]);
  }
  running_[participants] = std::move(test);
  Enqueue(std::move(participants));
}

void GroupBisection::NextStage() {
  for (Test& test : std::exchange(next_, {})) AddTest(std::move(test));
}

void GroupBisection::Halve(const std::vector<size_t>& nodes, bool is_mix) {
  Split split;
  split.is_mix = is_mix;
  const size_t half = nodes.size() / 2;
  for (size_t i = 0; i < nodes.size(); ++i) (i < half ? split.first : split.second).push_back(nodes[i]);
  next_.push_back({split.first, splits_.size()});
  next_.push_back({split.second, splits_.size()});
  splits_.push_back(std::move(split));
}

void GroupBisection::Judge(const std::vector<size_t>& nodes, const Verdict& verdict) {
  const auto it = running_.find(nodes);
  if (it == running_.end()) return;
  const Test test = std::move(it->second);
  running_.erase(it);
  if (verdict.passed()) {
    good_.insert(good_.end(), test.nodes.begin(), test.nodes.end());
    for (const size_t node : test.nodes) Clear(node);
    if (nodes.size() == 2) ClearPair(nodes[0], nodes[1]);
  } else {
    JudgeSlow(test, verdict);
  }
  if (test.split != kAll) FinishHalf(test.split, verdict.passed());
}

void GroupBisection::JudgeSlow(const Test& test, const Verdict& verdict) {
  if (test.nodes.size() == 1) return Blame(test.nodes[0], verdict);
  Halve(test.nodes, false);
}

// Both halves pass alone: what is slow lies between them.
void GroupBisection::FinishHalf(size_t index, bool passed) {
  Split& split = splits_[index];
  split.any_slow |= !passed;
  if (++split.tested < 2 || split.any_slow || split.is_mix) return;
  if (split.first.size() == 1 && split.second.size() == 1) return BlamePair(split.first[0], split.second[0]);
  std::vector<size_t> mixed;
  for (const size_t parity : {0, 1}) {
    for (const std::vector<size_t>* half : {&split.first, &split.second}) {
      for (size_t i = parity; i < half->size(); i += 2) mixed.push_back((*half)[i]);
    }
  }
  Halve(mixed, true);
}

}  // namespace weft::sim
