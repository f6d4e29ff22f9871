#include "server/plan/rounds.h"

#include <algorithm>

namespace weft {

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

}  // namespace weft
