#include "agent/probes/nccl/collective.h"

#include "absl/strings/str_cat.h"

namespace weft::nccl {
namespace {

constexpr uint64_t kAlignment = 16;

uint64_t RoundDown(uint64_t bytes, uint64_t step) { return bytes / step * step; }

// Parts that the size is divided into.
uint64_t UnitsPerMessage(v1::NcclCollective collective, uint32_t ranks) {
  switch (collective) {
    case v1::NCCL_COLLECTIVE_ALL_GATHER:
    case v1::NCCL_COLLECTIVE_REDUCE_SCATTER:
    case v1::NCCL_COLLECTIVE_ALL_TO_ALL:
      return ranks;
    default:
      return 1;
  }
}

}  // namespace

uint64_t BytesPerElement(v1::NcclDataType type) {
  switch (type) {
    case v1::NCCL_DATA_TYPE_INT8:
      return 1;
    case v1::NCCL_DATA_TYPE_FLOAT16:
    case v1::NCCL_DATA_TYPE_BFLOAT16:
      return 2;
    case v1::NCCL_DATA_TYPE_FLOAT64:
      return 8;
    default:
      return 4;
  }
}

const char* CollectiveName(v1::NcclCollective collective) {
  switch (collective) {
    case v1::NCCL_COLLECTIVE_ALL_REDUCE:
      return "all_reduce";
    case v1::NCCL_COLLECTIVE_REDUCE_SCATTER:
      return "reduce_scatter";
    case v1::NCCL_COLLECTIVE_ALL_TO_ALL:
      return "all_to_all";
    case v1::NCCL_COLLECTIVE_BROADCAST:
      return "broadcast";
    case v1::NCCL_COLLECTIVE_SEND_RECV:
      return "send_recv";
    default:
      return "all_gather";
  }
}

bool CanBeInPlace(v1::NcclCollective collective) {
  return collective != v1::NCCL_COLLECTIVE_ALL_TO_ALL && collective != v1::NCCL_COLLECTIVE_SEND_RECV;
}

bool Reduces(v1::NcclCollective collective) {
  return collective == v1::NCCL_COLLECTIVE_ALL_REDUCE || collective == v1::NCCL_COLLECTIVE_REDUCE_SCATTER;
}

absl::StatusOr<Layout> LayOut(v1::NcclCollective collective, v1::NcclDataType type, uint64_t message_bytes,
                              uint32_t ranks) {
  const uint64_t element = BytesPerElement(type);
  const uint64_t units = UnitsPerMessage(collective, ranks);
  Layout layout;
  layout.unit_bytes = RoundDown(message_bytes / units, kAlignment);
  if (layout.unit_bytes == 0) layout.unit_bytes = RoundDown(message_bytes / units, element);
  if (layout.unit_bytes == 0)
    return absl::InvalidArgumentError(
        absl::StrCat("a message of ", message_bytes, " bytes has no element for each of ", ranks, " ranks"));
  layout.count = layout.unit_bytes / element;
  layout.base_bytes = layout.unit_bytes * units;
  if (collective != v1::NCCL_COLLECTIVE_ALL_GATHER) layout.send_units = units;
  if (collective != v1::NCCL_COLLECTIVE_REDUCE_SCATTER) layout.receive_units = units;
  return layout;
}

double BusFactor(v1::NcclCollective collective, uint32_t ranks) {
  const double n = ranks;
  switch (collective) {
    case v1::NCCL_COLLECTIVE_ALL_REDUCE:
      return 2 * (n - 1) / n;
    case v1::NCCL_COLLECTIVE_ALL_GATHER:
    case v1::NCCL_COLLECTIVE_REDUCE_SCATTER:
    case v1::NCCL_COLLECTIVE_ALL_TO_ALL:
      return (n - 1) / n;
    default:
      return 1;
  }
}

}  // namespace weft::nccl
