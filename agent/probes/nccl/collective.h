// Collectives as nccl-tests means them: who sends and receives how much, and what a time is worth. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "weft/v1/probe.pb.h"

namespace weft::nccl {

uint64_t BytesPerElement(v1::NcclDataType type);

// E.g. "all_gather".
const char* CollectiveName(v1::NcclCollective collective);

// False for those that cannot put the result over what was sent.
bool CanBeInPlace(v1::NcclCollective collective);
// Those that add up; the others only move bytes.
bool Reduces(v1::NcclCollective collective);

// Buffers of one rank. Each consists of equal units: a rank's send buffer has one unit for each receiver that
// gets a part of its own, its receive buffer one for each sender.
struct Layout {
  uint64_t unit_bytes = 0;
  uint64_t send_units = 1;
  uint64_t receive_units = 1;
  uint64_t count = 0;       // elements of a unit: what NCCL is told
  uint64_t base_bytes = 0;  // what algorithm bandwidth counts
  uint64_t send_bytes() const { return unit_bytes * send_units; }
  uint64_t receive_bytes() const { return unit_bytes * receive_units; }
};

// For the size that the operator asked for. Units are whole elements, and multiples of 16 B where the size
// allows. kInvalidArgument when not even one element is left for each rank.
absl::StatusOr<Layout> LayOut(v1::NcclCollective collective, v1::NcclDataType type, uint64_t message_bytes,
                              uint32_t ranks);

// Bus bandwidth per algorithm bandwidth: 2(n-1)/n for all_reduce, (n-1)/n for all_gather, reduce_scatter and
// all_to_all, 1 for the rest. 0 for one rank where the factor has n-1.
double BusFactor(v1::NcclCollective collective, uint32_t ranks);

}  // namespace weft::nccl
