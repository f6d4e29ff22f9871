#include "agent/probes/fabric/pattern.h"

#include <algorithm>
#include <cstring>

namespace weft::fabric {
namespace {

constexpr uint64_t kStride = 64 << 10;
constexpr uint64_t kWord = sizeof(uint64_t);
constexpr uint64_t kStep = 0x9E3779B97F4A7C15ULL;

// SplitMix64's finisher: near inputs give far outputs.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

uint64_t FirstWord(uint64_t seed, uint64_t slot) { return Mix(seed + kStep * (slot + 1)); }

uint64_t Stamp(uint64_t seed, uint64_t message) { return Mix(~seed + kStep * (message + 1)); }

// Calls `visit(offset, length)` for each stamp of a slot of `size` bytes; short slots have short stamps.
template <typename Visit>
void ForEachStamp(uint64_t size, const Visit& visit) {
  for (uint64_t at = 0; at < size; at += kStride) visit(at, std::min(kWord, size - at));
  if (size > kWord) visit(size - kWord, kWord);
}

// The first byte where `actual` differs; there is one.
uint64_t FirstDifference(const uint8_t* actual, uint64_t expected, uint64_t length) {
  uint8_t bytes[kWord];
  std::memcpy(bytes, &expected, kWord);
  uint64_t i = 0;
  while (i + 1 < length && actual[i] == bytes[i]) ++i;
  return i;
}

bool InStamp(uint64_t offset, uint64_t size) {
  return offset % kStride < kWord || (size > kWord && offset >= size - kWord);
}

// How many of the `length` bytes at `at` lie before `limit`.
uint64_t BytesBefore(uint64_t limit, uint64_t at, uint64_t length) {
  return at >= limit ? 0 : std::min(length, limit - at);
}

std::optional<uint64_t> FindStampMismatch(absl::Span<const uint8_t> slot, uint64_t stamp) {
  std::optional<uint64_t> found;
  ForEachStamp(slot.size(), [&](uint64_t at, uint64_t length) {
    // The stamp at the end was written last and wins where it overlaps another.
    const bool is_end = slot.size() > kWord && at == slot.size() - kWord;
    const uint64_t visible =
        is_end || slot.size() <= kWord ? length : BytesBefore(slot.size() - kWord, at, length);
    if (!found && visible > 0 && std::memcmp(slot.data() + at, &stamp, visible) != 0)
      found = at + FirstDifference(slot.data() + at, stamp, visible);
  });
  return found;
}

std::optional<uint64_t> FindBodyMismatchInWord(absl::Span<const uint8_t> slot, uint64_t at,
                                               uint64_t expected) {
  uint8_t bytes[kWord];
  std::memcpy(bytes, &expected, kWord);
  for (uint64_t i = 0; i < kWord && at + i < slot.size(); ++i)
    if (slot[at + i] != bytes[i] && !InStamp(at + i, slot.size())) return at + i;
  return std::nullopt;
}

std::optional<uint64_t> FindBodyMismatch(absl::Span<const uint8_t> slot, uint64_t first_word) {
  uint64_t expected = first_word;
  for (uint64_t at = 0; at < slot.size(); at += kWord, expected += kStep) {
    const uint64_t length = std::min(kWord, slot.size() - at);
    if (std::memcmp(slot.data() + at, &expected, length) == 0) continue;
    if (const auto bad = FindBodyMismatchInWord(slot, at, expected)) return bad;
  }
  return std::nullopt;
}

}  // namespace

void FillSlot(absl::Span<uint8_t> slot, uint64_t seed, uint64_t slot_index) {
  uint64_t word = FirstWord(seed, slot_index);
  for (uint64_t at = 0; at < slot.size(); at += kWord, word += kStep)
    std::memcpy(slot.data() + at, &word, std::min(kWord, slot.size() - at));
}

void StampMessage(absl::Span<uint8_t> slot, uint64_t seed, uint64_t message) {
  const uint64_t stamp = Stamp(seed, message);
  ForEachStamp(slot.size(),
               [&](uint64_t at, uint64_t length) { std::memcpy(slot.data() + at, &stamp, length); });
}

std::optional<uint64_t> FindMismatch(absl::Span<const uint8_t> slot, uint64_t seed, uint64_t slot_index,
                                     uint64_t message) {
  const auto stamp = FindStampMismatch(slot, Stamp(seed, message));
  const auto body = FindBodyMismatch(slot, FirstWord(seed, slot_index));
  if (stamp && body) return std::min(*stamp, *body);
  return stamp ? stamp : body;
}

std::optional<uint64_t> LastMessageIn(uint64_t slot_index, uint64_t slots, uint64_t messages) {
  if (slot_index >= messages) return std::nullopt;
  return slot_index + (messages - 1 - slot_index) / slots * slots;
}

std::optional<Mismatch> CheckRegion(absl::Span<const uint8_t> region, uint64_t message_bytes, uint64_t slots,
                                    uint64_t messages, uint64_t seed) {
  for (uint64_t slot = 0; slot < slots; ++slot) {
    const auto message = LastMessageIn(slot, slots, messages);
    if (!message) break;
    const auto bad = FindMismatch(region.subspan(slot * message_bytes, message_bytes), seed, slot, *message);
    if (bad) return Mismatch{slot, *bad};
  }
  return std::nullopt;
}

}  // namespace weft::fabric
