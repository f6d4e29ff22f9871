#include "server/detect/cohort.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "server/detect/statistics.h"

namespace weft {
namespace {

constexpr size_t kLeastNodes = 6;
constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
constexpr double kHuber = 1.3;      // scales
constexpr double kHuberLoss = 1.1;  // of efficiency, as a factor on the standard error
constexpr double kLeastScale = 0.002;
// Healthy nodes of one kind differ by about this much; small cohorts cannot tell, so that much counts as if
// so many nodes had shown it.
constexpr double kUsualSpread = 0.006;
constexpr double kUsualWeight = 24;
// Scales below the peers, for 16 nodes, and what each doubling of the cohort adds: more nodes, more chances.
constexpr double kLeastScalesBelow = 3.7;
constexpr double kMorePerDoubling = 0.15;
constexpr double kLeastDeviation = 0.025;
constexpr double kLeastShareLow = 0.7;
// A second level: at least a tenth of the nodes and 3, at most half, this far below the first, and clear of
// it.
constexpr double kLeastGap = 0.008;
constexpr double kMostGap = 0.032;
constexpr double kLeastClearance = 3;
constexpr double kOutlier = 0.04;
constexpr size_t kLeastNodesForTwoLevels = 16;

struct Node {
  size_t index;
  std::vector<double> logs;  // relative to the cohort, sample by sample; missing ones left out
  double level = 0;
};

double LogOf(double value) { return std::isfinite(value) && value > 0 ? std::log(value) : kMissing; }

// Nodes with enough samples, the cohort's middle taken out of each sample.
std::vector<Node> WithoutCommonMode(const std::vector<std::vector<double>>& values) {
  size_t samples = 0;
  for (const auto& one : values) samples = std::max(samples, one.size());
  std::vector<double> common(samples, kMissing);
  for (size_t i = 0; i < samples; ++i) {
    std::vector<double> column;
    for (const auto& one : values) {
      const double log = i < one.size() ? LogOf(one[i]) : kMissing;
      if (!std::isnan(log)) column.push_back(log);
    }
    if (!column.empty()) common[i] = MiddleOf(column);
  }
  std::vector<Node> nodes;
  for (size_t n = 0; n < values.size(); ++n) {
    Node node{n, {}, 0};
    for (size_t i = 0; i < values[n].size(); ++i) {
      const double log = LogOf(values[n][i]);
      if (!std::isnan(log)) node.logs.push_back(log - common[i]);
    }
    if (!node.logs.empty() && 2 * node.logs.size() >= samples) nodes.push_back(std::move(node));
  }
  return nodes;
}

// Huber's estimate of a node's level.
double LevelOf(const Node& node, double noise) {
  std::vector<double> copy = node.logs;
  double level = MiddleOf(copy);
  const double limit = kHuber * noise;
  for (int pass = 0; pass < 3; ++pass) {
    double sum = 0;
    for (const double log : node.logs) sum += std::clamp(log - level, -limit, limit);
    level += sum / (0.8 * static_cast<double>(node.logs.size()));
  }
  return level;
}

// Noise of one sample around its node's level.
double NoiseOf(const std::vector<Node>& nodes) {
  std::vector<double> residuals;
  double samples = 0;
  for (const Node& node : nodes) {
    std::vector<double> copy = node.logs;
    const double middle = MiddleOf(copy);
    for (const double log : node.logs) residuals.push_back(log - middle);
    samples = std::max(samples, static_cast<double>(node.logs.size()));
  }
  return RobustScale(std::move(residuals), 0) * std::sqrt(samples / std::max(1.0, samples - 1));
}

struct TwoLevels {
  double cut, lower, upper;
};

std::optional<TwoLevels> FindTwoLevels(std::vector<double> levels) {
  const size_t all = levels.size();
  std::erase_if(levels, [](double level) { return level <= -kOutlier; });
  std::sort(levels.begin(), levels.end());
  const size_t least = std::max<size_t>(3, (all + 9) / 10);
  const size_t count = levels.size();
  if (count < kLeastNodesForTwoLevels || count < 2 * least) return std::nullopt;
  const double total = std::accumulate(levels.begin(), levels.end(), 0.0);
  const double squares = std::inner_product(levels.begin(), levels.end(), levels.begin(), 0.0);
  double sum = 0, best = std::numeric_limits<double>::infinity(), gap = 0;
  size_t split = 0;
  for (size_t low = 1; low < count; ++low) {
    sum += levels[low - 1];
    if (low < least || count - low < least) continue;
    const double a = sum / static_cast<double>(low);
    const double b = (total - sum) / static_cast<double>(count - low);
    const double within = squares - a * sum - b * (total - sum);
    if (within >= best) continue;
    best = within;
    gap = b - a;
    split = low;
  }
  const double spread = std::sqrt(std::max(0.0, best) / static_cast<double>(count));
  const bool is_clear = gap >= kLeastGap && gap <= kMostGap && gap > kLeastClearance * spread;
  if (split == 0 || !is_clear || 2 * split > count) return std::nullopt;
  return TwoLevels{(levels[split - 1] + levels[split]) / 2, levels[split / 2],
                   levels[split + (count - split) / 2]};
}

}  // namespace

std::vector<PeerVerdict> SlowAmongPeers(const std::vector<std::vector<double>>& values) {
  std::vector<Node> nodes = WithoutCommonMode(values);
  if (nodes.size() < kLeastNodes) return {};
  const double noise = NoiseOf(nodes);
  double samples = 0;
  std::vector<double> levels;
  for (Node& node : nodes) {
    node.level = LevelOf(node, noise);
    levels.push_back(node.level);
    samples = std::max(samples, static_cast<double>(node.logs.size()));
  }
  std::vector<double> copy = levels;
  double upper = MiddleOf(copy);
  for (double& level : levels) level -= upper;
  double lower = 0;  // level of the lower sub-population, relative to `upper`
  std::vector<double> residuals = levels;
  if (const std::optional<TwoLevels> two = FindTwoLevels(levels)) {
    for (double& one : residuals) one -= one < two->cut ? two->lower : two->upper;
    upper += two->upper;
    lower = two->lower - two->upper;
  }
  const double error = kHuberLoss * noise / std::sqrt(samples);
  const double spread = RobustScale(std::move(residuals), 0);
  const auto count = static_cast<double>(nodes.size());
  const double between =
      (count * std::max(0.0, spread * spread - error * error) + kUsualWeight * kUsualSpread * kUsualSpread) /
      (count + kUsualWeight);
  const double scale = std::max(kLeastScale, std::sqrt(between + error * error));
  const double least_below = kLeastScalesBelow + kMorePerDoubling * std::log2(count / 16);

  std::vector<PeerVerdict> slow;
  for (const Node& node : nodes) {
    const double deviation = node.level - upper;
    const double below = (lower - deviation) / scale;
    if (below <= least_below || deviation >= -kLeastDeviation) continue;
    const auto low = std::count_if(node.logs.begin(), node.logs.end(),
                                   [&](double log) { return log - upper < deviation / 2; });
    if (static_cast<double>(low) < kLeastShareLow * static_cast<double>(node.logs.size())) continue;
    slow.push_back({node.index, deviation, below});
  }
  return slow;
}

}  // namespace weft
