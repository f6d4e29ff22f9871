#include "agent/probes/fabric/bandwidth.h"

#include <rdma/fi_errno.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "agent/probes/fabric/pattern.h"

namespace weft::fabric {
namespace {

// Long enough that a fast link never waits for a sleeping sender, short enough to leave the core to others on
// a slow one.
constexpr int64_t kSpin = 50 * kMicrosecond;
constexpr int64_t kWait = 10 * kMillisecond;
// How far a paced sender may catch up after the scheduler held it up. A real link goes on sending what is in
// flight while its process waits for a core.
constexpr double kCatchUpSeconds = 0.5;

}  // namespace

Writer::Writer(Endpoint& endpoint, const Region& source, const Options& options)
    : endpoint_(endpoint), source_(source), options_(options), operations_(options.slots) {
  for (uint64_t i = 0; i < options.slots; ++i) {
    operations_[i].handler = this;
    operations_[i].number = i;
  }
}

void Writer::Fill(uint64_t seed) {
  for (uint64_t slot = 0; slot < std::min(options_.slots, messages_); ++slot)
    FillSlot(source_.bytes().subspan(slot * options_.message_bytes, options_.message_bytes), seed, slot);
}

void Writer::AdvanceInOrder() {
  while (completed_ < posted_ && slot_done_[completed_ % options_.slots]) {
    slot_done_[completed_ % options_.slots] = false;
    ++completed_;
  }
}

void Writer::OnCompletion(Operation& operation, size_t /*length*/, int error) {
  if (error != 0 && error_ == 0) error_ = error;
  slot_done_[operation.number] = true;
  provider_full_ = false;
  times_->OnComplete(NowTicks());
  AdvanceInOrder();
}

ssize_t Writer::Post(uint64_t slot) {
  const uint64_t offset = slot * options_.message_bytes;
  iovec local = {source_.bytes().data() + offset, options_.message_bytes};
  void* descriptor = source_.descriptor();
  fi_rma_iov remote = {options_.target.address + offset, options_.message_bytes, options_.target.key};
  fi_msg_rma message = {};
  message.msg_iov = &local;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.addr = options_.peer;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.context = &operations_[slot].context;
  const uint64_t flags = FI_COMPLETION | (endpoint_.device().delivery_complete ? FI_DELIVERY_COMPLETE : 0);
  return fi_writemsg(endpoint_.get(), &message, flags);
}

absl::Status Writer::PostSome(uint64_t seed, std::optional<TokenBucket>& bucket) {
  while (WindowHasRoom()) {
    if (bucket && bucket->WaitFor(options_.message_bytes, NowTicks()) > 0) break;
    const uint64_t slot = posted_ % options_.slots;
    StampMessage(source_.bytes().subspan(slot * options_.message_bytes, options_.message_bytes), seed,
                 posted_);
    const ssize_t rc = Post(slot);
    provider_full_ = rc == -FI_EAGAIN;
    if (provider_full_) break;
    if (rc != 0) return FabricError(absl::StatusCode::kUnavailable, rc, "fi_writemsg");
    if (bucket) bucket->TryTake(options_.message_bytes, NowTicks());
    ++posted_;
  }
  return absl::OkStatus();
}

int64_t Writer::Patience(std::optional<TokenBucket>& bucket) const {
  if (provider_full_) return posted_ > completed_ ? kMillisecond : 0;
  if (!bucket || !WindowHasRoom()) return kWait;
  return std::min(kWait, bucket->WaitFor(options_.message_bytes, NowTicks()));
}

absl::StatusOr<WriteTimes> Writer::Write(uint64_t messages, uint64_t seed, int64_t deadline) {
  messages_ = messages;
  posted_ = completed_ = 0;
  slot_done_.assign(options_.slots, false);
  times_.emplace(messages, options_.message_bytes);
  Fill(seed);
  WriteTimes times;
  times.start = NowTicks();
  std::optional<TokenBucket> bucket;
  if (options_.link_rate > 0)
    bucket.emplace(
        options_.link_rate,
        std::max(options_.link_rate * kCatchUpSeconds, static_cast<double>(options_.message_bytes)),
        times.start);
  while (completed_ < messages_) {
    if (absl::Status s = PostSome(seed, bucket); !s.ok()) return s;
    if (absl::Status s = endpoint_.Progress(Patience(bucket), bucket ? 0 : kSpin); !s.ok()) return s;
    if (error_ != 0)
      return FabricError(absl::StatusCode::kUnavailable, error_,
                         absl::StrCat("a write failed after ", completed_, " of ", messages_));
    if (NowTicks() >= deadline)
      return absl::DeadlineExceededError(absl::StrCat("only ", completed_, " of ", messages_, " writes of ",
                                                      options_.message_bytes, " bytes completed in time"));
  }
  times.end = times_->last();
  times.block_rates = times_->Rates(times.start);
  return times;
}

}  // namespace weft::fabric
