#include "server/plan/rounds.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace weft {
namespace {

// FNV-1a, 64 bits.
uint64_t Hash(absl::string_view text, uint64_t hash) {
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211u;
  return hash;
}

}  // namespace

uint64_t ScatterKey(absl::string_view cohort, absl::string_view id) {
  uint64_t key = Hash(id, Hash("@", Hash(cohort, 14695981039346656037u)));
  // FNV leaves the last byte in the low bits; splitmix64's finaliser spreads it.
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9u;
  key = (key ^ (key >> 27)) * 0x94d049bb133111ebu;
  return key ^ (key >> 31);
}

size_t CycleLength(size_t n) {
  if (n < 2) return 0;
  return n % 2 == 0 ? n - 1 : n;
}

std::vector<std::pair<size_t, size_t>> RoundPairs(size_t n, uint64_t round) {
  const size_t length = CycleLength(n);
  std::vector<std::pair<size_t, size_t>> pairs;
  if (length == 0) return pairs;
  const size_t turn = static_cast<size_t>(round % length);
  const uint64_t cycle = round / length;
  // Index `length` stands in the middle of the circle; with odd n it does not exist and its partner is idle.
  for (size_t k = n % 2 == 0 ? 0 : 1; k <= (length - 1) / 2; ++k) {
    const size_t a = k == 0 ? length : (turn + k) % length;
    const size_t b = (turn + length - k) % length;
    const auto [low, high] = std::minmax(a, b);
    const bool swap = (cycle + low + high) % 2 != 0;
    pairs.emplace_back(swap ? high : low, swap ? low : high);
  }
  return pairs;
}

namespace {

// The generator's sequence is part of the language standard; what std::shuffle does with it is not.
std::vector<size_t> Shuffled(size_t n, uint64_t round) {
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937_64 random(round);
  for (size_t i = n; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return order;
}

}  // namespace

std::vector<std::vector<size_t>> RoundGroups(size_t n, size_t size, uint64_t round) {
  std::vector<std::vector<size_t>> groups;
  if (size <= 1) {
    for (size_t i = 0; i < n; ++i) groups.push_back({i});
    return groups;
  }
  if (size == 2) {
    for (const auto& [first, second] : RoundPairs(n, round)) groups.push_back({first, second});
    return groups;
  }
  if (n < 2) return groups;
  const std::vector<size_t> order = Shuffled(n, round);
  for (size_t i = 0; i < n; ++i) {
    const bool full = groups.empty() || groups.back().size() >= size;
    const bool last_alone = i + 1 == n && full && !groups.empty();
    if (full && !last_alone) groups.emplace_back();
    groups.back().push_back(order[i]);
  }
  return groups;
}

}  // namespace weft
