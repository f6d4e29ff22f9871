// Contents that prove a transfer: which message lies in which slot, and that no byte is another's. Any
// thread.
//
// Each slot has a body that depends on the seed and the slot, laid down before the clock starts. Each message
// further carries stamps, one per 64 KiB and one at its end, that depend on the seed and on the message's
// number: cheap enough for the timed part. Message m goes to slot m % slots, so the receiver knows which
// message must be the last in every slot. The seed differs between warm-up and timed part, so that what the
// warm-up left cannot pass.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/types/span.h"

namespace weft::fabric {

// Lays the slot's body down.
void FillSlot(absl::Span<uint8_t> slot, uint64_t seed, uint64_t slot_index);

// Writes the stamps of `message` over the body.
void StampMessage(absl::Span<uint8_t> slot, uint64_t seed, uint64_t message);

// Offset of the first byte that is not as FillSlot and StampMessage would have left it; nullopt if none.
std::optional<uint64_t> FindMismatch(absl::Span<const uint8_t> slot, uint64_t seed, uint64_t slot_index,
                                     uint64_t message);

// The message that is the last in `slot_index` when `messages` were sent; nullopt when none went there.
std::optional<uint64_t> LastMessageIn(uint64_t slot_index, uint64_t slots, uint64_t messages);

// The first fault in the whole region of `slots` slots of `message_bytes`.
struct Mismatch {
  uint64_t slot = 0;
  uint64_t offset = 0;
};
std::optional<Mismatch> CheckRegion(absl::Span<const uint8_t> region, uint64_t message_bytes, uint64_t slots,
                                    uint64_t messages, uint64_t seed);

}  // namespace weft::fabric
