// The check of data: what ranks send is laid down from the host, what they received is brought back to it.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "agent/probes/nccl/device_ranks.h"

namespace weft::nccl {
namespace {

constexpr uint64_t kCheckBudgetBytes = 16 << 20;
// Elements times ranks that the host adds up for one check.
constexpr uint64_t kSumBudget = 32 << 20;
constexpr unsigned char kPoison = 0xA5;

}  // namespace

std::vector<Window> DeviceRanks::WindowsOf(const Layout& layout) const {
  uint64_t budget = kCheckBudgetBytes;
  if (Reduces(parameters_.collective))
    budget = std::min(budget, kSumBudget / comm_ranks_ * BytesPerElement(parameters_.data_type));
  return CheckedWindows(layout.unit_bytes, budget / std::max(layout.send_units, layout.receive_units));
}

absl::Status DeviceRanks::FillRank(size_t index, const Contents& contents, const Layout& layout,
                                   bool in_place) {
  const Rank& rank = ranks_[index];
  const Place place = PlaceOf(rank, layout, in_place);
  if (absl::Status s = Enter(index); !s.ok()) return s;
  if (absl::Status s =
          cuda_->Check(cuda_->MemsetD8Async(place.receive, kPoison, layout.receive_bytes(), rank.stream),
                       "cuMemsetD8Async");
      !s.ok())
    return s;
  for (uint64_t unit = 0; unit < layout.send_units; ++unit)
    for (const Window& window : WindowsOf(layout)) {
      if (absl::Status s = WaitForStream(rank.stream); !s.ok()) return s;
      contents.Fill(rank.number, unit, window, {static_cast<uint8_t*>(staging_.data()), window.bytes});
      const CUdeviceptr to = place.send + unit * layout.unit_bytes + window.offset;
      if (absl::Status s = cuda_->Check(
              cuda_->MemcpyHtoDAsync(to, staging_.data(), window.bytes, rank.stream), "cuMemcpyHtoDAsync");
          !s.ok())
        return s;
    }
  return WaitForStream(rank.stream);
}

absl::Status DeviceRanks::CheckRank(size_t index, const Contents& contents, const Layout& layout,
                                    bool in_place) {
  const Rank& rank = ranks_[index];
  const Place place = PlaceOf(rank, layout, in_place);
  const auto* const found = static_cast<const uint8_t*>(staging_.data());
  std::vector<uint8_t> expected(kMaxWindowBytes);
  if (absl::Status s = Enter(index); !s.ok()) return s;
  received_bytes_ += layout.receive_bytes();
  for (uint64_t unit = 0; unit < layout.receive_units; ++unit)
    for (const Window& window : WindowsOf(layout)) {
      const uint64_t offset = unit * layout.unit_bytes + window.offset;
      if (absl::Status s = cuda_->Check(
              cuda_->MemcpyDtoHAsync(staging_.data(), place.receive + offset, window.bytes, rank.stream),
              "cuMemcpyDtoHAsync");
          !s.ok())
        return s;
      contents.Expect(rank.number, unit, window, {expected.data(), window.bytes});
      if (absl::Status s = WaitForStream(rank.stream); !s.ok()) return s;
      if (const auto bad = FirstDifference({found, window.bytes}, {expected.data(), window.bytes}))
        return absl::DataLossError(absl::StrCat(
            CollectiveName(parameters_.collective), " gave wrong data at rank ", numbers_.own_first() + index,
            " (", gpus_[index].pci_address, "): byte ", offset + *bad, " of ", layout.receive_bytes(), " is ",
            found[*bad], ", must be ", expected[*bad]));
      checked_bytes_ += window.bytes;
    }
  return absl::OkStatus();
}

absl::Status DeviceRanks::FillAll(const Contents& contents, const Layout& layout, bool in_place) {
  for (size_t i = 0; i < ranks_.size(); ++i)
    if (absl::Status s = FillRank(i, contents, layout, in_place); !s.ok()) return s;
  return absl::OkStatus();
}

absl::Status DeviceRanks::CheckAll(const Contents& contents, const Layout& layout, bool in_place) {
  for (size_t i = 0; i < ranks_.size(); ++i)
    if (absl::Status s = CheckRank(i, contents, layout, in_place); !s.ok()) return s;
  return absl::OkStatus();
}

}  // namespace weft::nccl
