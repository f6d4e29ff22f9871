// Contents that prove a collective: made and expected on the host alone, so that the check needs no code on
// the GPU and trusts nothing there. Pure.
//
// What only moves is arbitrary bytes that depend on seed, sender, receiver's unit and place. What is added up
// is small whole numbers whose sum every data type holds exactly, in any order of adding.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "weft/v1/probe.pb.h"

namespace weft::nccl {

// A part of a unit (see Layout).
struct Window {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// The parts of a unit that are filled and checked: all of it, in pieces, up to `budget_bytes`; beyond that
// pieces of 64 KiB, evenly spread, the first at the start and the last at the end. Offsets are multiples
// of 16.
std::vector<Window> CheckedWindows(uint64_t unit_bytes, uint64_t budget_bytes);
// No window is longer.
inline constexpr uint64_t kMaxWindowBytes = 1 << 20;

class Contents {
 public:
  Contents(v1::NcclCollective collective, v1::NcclDataType type, uint32_t ranks, uint64_t seed)
      : collective_(collective), type_(type), ranks_(ranks), seed_(seed) {}

  // What `rank` sends in that window of that unit of its send buffer. `out` has the window's length.
  void Fill(uint32_t rank, uint64_t unit, const Window& window, absl::Span<uint8_t> out) const;
  // What `rank` must find in that window of that unit of its receive buffer.
  void Expect(uint32_t rank, uint64_t unit, const Window& window, absl::Span<uint8_t> out) const;

 private:
  void FillBytes(uint32_t rank, uint64_t unit, const Window& window, absl::Span<uint8_t> out) const;
  // Sums over ranks [first, last).
  void FillSums(uint32_t first, uint32_t last, uint64_t unit, const Window& window,
                absl::Span<uint8_t> out) const;

  v1::NcclCollective collective_;
  v1::NcclDataType type_;
  uint32_t ranks_;
  uint64_t seed_;
};

// Offset of the first byte that differs; nullopt if none. Both have the same length.
std::optional<uint64_t> FirstDifference(absl::Span<const uint8_t> a, absl::Span<const uint8_t> b);

}  // namespace weft::nccl
