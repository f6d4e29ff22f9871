#include "agent/probes/nccl/pattern.h"

#include <algorithm>
#include <cstring>

#include "agent/probes/nccl/collective.h"

namespace weft::nccl {
namespace {

constexpr uint64_t kSampleBytes = 64 << 10;
constexpr uint64_t kAlignment = 16;
constexpr uint64_t kWord = sizeof(uint64_t);
constexpr uint64_t kStep = 0x9E3779B97F4A7C15ULL;
constexpr uint64_t kMaxValue = 15;

// SplitMix64's finisher: near inputs give far outputs.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

uint64_t Stream(uint64_t seed, uint32_t rank, uint64_t unit) {
  return Mix(Mix(seed * kStep + rank + 1) + kStep * (unit + 1));
}

// Up to where whole numbers are exact.
uint64_t ExactLimit(v1::NcclDataType type) {
  switch (type) {
    case v1::NCCL_DATA_TYPE_INT8:
      return 127;
    case v1::NCCL_DATA_TYPE_BFLOAT16:
      return 256;
    case v1::NCCL_DATA_TYPE_FLOAT16:
      return 2048;
    default:
      return 1 << 24;
  }
}

// How the ranks share what the type holds: values 0 to `greatest`, and of many ranks only one in `one_in` has
// a 1, so that their sum stays far below the limit.
struct Share {
  uint64_t greatest;
  uint64_t one_in;
};

Share ShareOf(v1::NcclDataType type, uint32_t ranks) {
  const uint64_t each = ExactLimit(type) / ranks;
  if (each > 0) return {std::min(each, kMaxValue), 0};
  return {1, 4 * ranks / ExactLimit(type) + 1};
}

uint64_t ValueOf(const Share& share, uint64_t stream, uint64_t index) {
  const uint64_t random = Mix(stream + kStep * index) >> 32;
  if (share.one_in > 0) return random % share.one_in == 0 ? 1 : 0;
  return random % (share.greatest + 1);
}

// `value` is at most 2048: 5 bits of exponent and 10 of fraction hold it.
uint16_t ToFloat16(uint64_t value) {
  if (value == 0) return 0;
  uint16_t exponent = 0;
  while (value >> (exponent + 1) != 0) ++exponent;
  const auto fraction = static_cast<uint16_t>(((value << 10) >> exponent) & 0x3ff);
  return static_cast<uint16_t>((exponent + 15) << 10 | fraction);
}

// The upper half of a float32.
uint16_t ToBfloat16(uint64_t value) {
  const auto number = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

template <typename T>
void Put(uint8_t* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

void Encode(v1::NcclDataType type, uint64_t value, uint8_t* to) {
  switch (type) {
    case v1::NCCL_DATA_TYPE_INT8:
      return Put(to, static_cast<int8_t>(value));
    case v1::NCCL_DATA_TYPE_INT32:
      return Put(to, static_cast<int32_t>(value));
    case v1::NCCL_DATA_TYPE_FLOAT16:
      return Put(to, ToFloat16(value));
    case v1::NCCL_DATA_TYPE_BFLOAT16:
      return Put(to, ToBfloat16(value));
    case v1::NCCL_DATA_TYPE_FLOAT64:
      return Put(to, static_cast<double>(value));
    default:
      return Put(to, static_cast<float>(value));
  }
}

}  // namespace

std::vector<Window> CheckedWindows(uint64_t unit_bytes, uint64_t budget_bytes) {
  std::vector<Window> windows;
  const bool all = unit_bytes <= std::max(budget_bytes, kSampleBytes);
  const uint64_t count = all ? (unit_bytes + kMaxWindowBytes - 1) / kMaxWindowBytes
                             : std::max<uint64_t>(budget_bytes / kSampleBytes, 2);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t offset =
        all ? i * kMaxWindowBytes : (unit_bytes - kSampleBytes) / kAlignment * i / (count - 1) * kAlignment;
    const uint64_t length = all ? kMaxWindowBytes : kSampleBytes;
    windows.push_back({offset, std::min(length, unit_bytes - offset)});
  }
  // The last one takes what alignment left.
  windows.back().bytes = std::min(unit_bytes - windows.back().offset, kMaxWindowBytes);
  return windows;
}

void Contents::FillBytes(uint32_t rank, uint64_t unit, const Window& window, absl::Span<uint8_t> out) const {
  const uint64_t stream = Stream(seed_, rank, unit);
  for (uint64_t at = 0; at < window.bytes; at += kWord) {
    const uint64_t word = Mix(stream + kStep * ((window.offset + at) / kWord));
    std::memcpy(out.data() + at, &word, std::min(kWord, window.bytes - at));
  }
}

void Contents::FillSums(uint32_t first, uint32_t last, uint64_t unit, const Window& window,
                        absl::Span<uint8_t> out) const {
  const uint64_t element = BytesPerElement(type_);
  const Share share = ShareOf(type_, ranks_);
  std::vector<uint64_t> sums(window.bytes / element, 0);
  for (uint32_t rank = first; rank < last; ++rank) {
    const uint64_t stream = Stream(seed_, rank, unit);
    for (uint64_t i = 0; i < sums.size(); ++i) sums[i] += ValueOf(share, stream, window.offset / element + i);
  }
  for (uint64_t i = 0; i < sums.size(); ++i) Encode(type_, sums[i], out.data() + i * element);
}

void Contents::Fill(uint32_t rank, uint64_t unit, const Window& window, absl::Span<uint8_t> out) const {
  if (Reduces(collective_)) return FillSums(rank, rank + 1, unit, window, out);
  FillBytes(rank, unit, window, out);
}

void Contents::Expect(uint32_t rank, uint64_t unit, const Window& window, absl::Span<uint8_t> out) const {
  switch (collective_) {
    case v1::NCCL_COLLECTIVE_ALL_REDUCE:
      return FillSums(0, ranks_, 0, window, out);
    case v1::NCCL_COLLECTIVE_REDUCE_SCATTER:
      return FillSums(0, ranks_, rank, window, out);
    case v1::NCCL_COLLECTIVE_ALL_TO_ALL:
      return FillBytes(static_cast<uint32_t>(unit), rank, window, out);
    case v1::NCCL_COLLECTIVE_BROADCAST:
      return FillBytes(0, 0, window, out);
    case v1::NCCL_COLLECTIVE_SEND_RECV:
      return FillBytes((rank + ranks_ - 1) % ranks_, 0, window, out);
    default:
      return FillBytes(static_cast<uint32_t>(unit), 0, window, out);
  }
}

std::optional<uint64_t> FirstDifference(absl::Span<const uint8_t> a, absl::Span<const uint8_t> b) {
  if (std::memcmp(a.data(), b.data(), a.size()) == 0) return std::nullopt;
  return static_cast<uint64_t>(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin());
}

}  // namespace weft::nccl
