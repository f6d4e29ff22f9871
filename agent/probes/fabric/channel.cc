#include "agent/probes/fabric/channel.h"

#include <rdma/fi_errno.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace weft::fabric {
namespace {

constexpr uint64_t kReceives = 16;
constexpr uint64_t kSendSlot = kReceives;
constexpr size_t kPingBytes = sizeof(uint64_t);
constexpr uint32_t kMaxDropped = 64;
constexpr size_t kMaxQueued = 64;
constexpr int64_t kControlSpin = 20 * kMicrosecond;
constexpr int64_t kWait = 10 * kMillisecond;

absl::Status Late(absl::string_view what) {
  return absl::DeadlineExceededError(absl::StrCat("the peer gave no sign in time: ", what));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Channel>> Channel::Open(Endpoint& endpoint, std::string session) {
  std::unique_ptr<Channel> channel(new Channel(endpoint, std::move(session)));
  absl::StatusOr<Region> region = endpoint.Register((kReceives + 1) * kControlBytes);
  if (!region.ok()) return region.status();
  channel->region_.emplace(std::move(*region));
  channel->operations_.resize(kReceives + 1);
  for (uint64_t i = 0; i <= kReceives; ++i) {
    channel->operations_[i].handler = channel.get();
    channel->operations_[i].number = i;
  }
  for (uint64_t i = 0; i < kReceives; ++i)
    if (absl::Status s = channel->PostReceive(i); !s.ok()) return s;
  return channel;
}

absl::Span<uint8_t> Channel::Buffer(uint64_t number) const {
  return region_->bytes().subspan(number * kControlBytes, kControlBytes);
}

absl::Status Channel::PostReceive(uint64_t number) {
  const auto buffer = Buffer(number);
  const ssize_t rc = fi_recv(endpoint_.get(), buffer.data(), buffer.size(), region_->descriptor(),
                             FI_ADDR_UNSPEC, &operations_[number].context);
  if (rc == -FI_EAGAIN) {
    to_repost_.push_back(number);
    return absl::OkStatus();
  }
  return rc == 0 ? absl::OkStatus() : FabricError(absl::StatusCode::kUnavailable, rc, "fi_recv");
}

absl::Status Channel::RepostReceives() {
  for (const uint64_t number : std::exchange(to_repost_, {}))
    if (absl::Status s = PostReceive(number); !s.ok()) return s;
  return absl::OkStatus();
}

void Channel::OnCompletion(Operation& operation, size_t length, int error) {
  if (operation.number != kSendSlot) return OnReceive(operation.number, length, error);
  send_pending_ = false;
  send_error_ = error;
}

void Channel::OnReceive(uint64_t number, size_t length, int error) {
  if (error == FI_ECANCELED) return;
  to_repost_.push_back(number);
  // A message too long for its buffer is a stranger's; any other error is the endpoint's.
  if (error != 0 && error != FI_ETRUNC && error != FI_EMSGSIZE) {
    receive_error_ = error;
    return;
  }
  const auto buffer = Buffer(number);
  if (error == 0 && length == kPingBytes && pings_.size() < kMaxQueued) {
    uint64_t ping;
    std::memcpy(&ping, buffer.data(), sizeof ping);
    pings_.push_back(ping);
    return;
  }
  absl::StatusOr<ControlMessage> message = absl::InvalidArgumentError("control message: too long");
  if (error == 0 && length <= buffer.size())
    message = DecodeControl({reinterpret_cast<const char*>(buffer.data()), length}, session_);
  if (message.ok() && inbox_.size() < kMaxQueued) return inbox_.push_back(*std::move(message));
  ++dropped_;
  last_drop_ = std::string(message.status().message());
}

absl::Status Channel::PostSend(int64_t deadline) {
  const auto buffer = Buffer(kSendSlot);
  while (true) {
    const ssize_t rc = fi_send(endpoint_.get(), buffer.data(), buffer.size(), region_->descriptor(), peer_,
                               &operations_[kSendSlot].context);
    if (rc == 0) return absl::OkStatus();
    if (rc != -FI_EAGAIN) return FabricError(absl::StatusCode::kUnavailable, rc, "cannot reach the peer");
    if (NowTicks() >= deadline) return Late("it cannot be reached");
    if (absl::Status s = endpoint_.Progress(kMillisecond, 0); !s.ok()) return s;
  }
}

absl::Status Channel::AwaitSend(int64_t deadline) {
  while (send_pending_) {
    if (NowTicks() >= deadline) return Late("it takes no message");
    if (absl::Status s = endpoint_.Progress(kWait, kControlSpin); !s.ok()) return s;
  }
  if (send_error_ == 0) return absl::OkStatus();
  return FabricError(absl::StatusCode::kUnavailable, std::exchange(send_error_, 0), "cannot reach the peer");
}

absl::Status Channel::Send(const ControlMessage& message, int64_t deadline) {
  if (absl::Status s = AwaitSend(deadline); !s.ok()) return s;
  const std::string bytes = EncodeControl(message, session_);
  std::memcpy(Buffer(kSendSlot).data(), bytes.data(), bytes.size());
  if (absl::Status s = PostSend(deadline); !s.ok()) return s;
  send_pending_ = true;
  return AwaitSend(deadline);
}

absl::StatusOr<ControlMessage> Channel::Receive(int64_t deadline) {
  while (inbox_.empty()) {
    if (absl::Status s = RepostReceives(); !s.ok()) return s;
    if (receive_error_ != 0)
      return FabricError(absl::StatusCode::kUnavailable, std::exchange(receive_error_, 0),
                         "the connection broke");
    if (dropped_ > kMaxDropped)
      return absl::InvalidArgumentError(absl::StrCat("too many strange messages came, last: ", last_drop_));
    if (NowTicks() >= deadline)
      return Late(dropped_ == 0 ? "nothing came"
                                : absl::StrCat("only strange messages came, last: ", last_drop_));
    if (absl::Status s = endpoint_.Progress(kWait, kControlSpin); !s.ok()) return s;
  }
  ControlMessage message = std::move(inbox_.front());
  inbox_.pop_front();
  if (message.type == ControlType::kAbort)
    return absl::AbortedError(absl::StrCat("the peer gave up: ", message.blob));
  return message;
}

absl::StatusOr<ControlMessage> Channel::Expect(ControlType type, uint32_t step, int64_t deadline) {
  absl::StatusOr<ControlMessage> message = Receive(deadline);
  if (!message.ok() || (message->type == type && message->step == step)) return message;
  return absl::InvalidArgumentError(absl::StrCat("the peer is out of step: message ",
                                                 static_cast<int>(message->type), " of step ", message->step,
                                                 " instead of ", static_cast<int>(type), " of ", step));
}

absl::Status Channel::SendPing(uint64_t number, int64_t deadline) {
  // The send buffer serves for both: no ping is sent while a control message is under way.
  std::memcpy(Buffer(kSendSlot).data(), &number, sizeof number);
  while (true) {
    const bool inject = endpoint_.can_inject(kPingBytes);
    const ssize_t rc = inject ? fi_inject(endpoint_.get(), Buffer(kSendSlot).data(), kPingBytes, peer_)
                              : fi_send(endpoint_.get(), Buffer(kSendSlot).data(), kPingBytes,
                                        region_->descriptor(), peer_, &operations_[kSendSlot].context);
    if (rc == 0) {
      send_pending_ = !inject;
      return inject ? absl::OkStatus() : AwaitSend(deadline);
    }
    if (rc != -FI_EAGAIN) return FabricError(absl::StatusCode::kUnavailable, rc, "cannot reach the peer");
    if (NowTicks() >= deadline) return Late("it takes no message");
    if (absl::Status s = endpoint_.Progress(0, 0); !s.ok()) return s;
  }
}

absl::Status Channel::ExpectPing(uint64_t number, int64_t spin, int64_t deadline) {
  if (!to_repost_.empty())
    if (absl::Status s = RepostReceives(); !s.ok()) return s;
  while (pings_.empty()) {
    if (!inbox_.empty()) {
      const absl::Status aborted = Receive(deadline).status();
      return aborted.ok() ? absl::InvalidArgumentError("a control message came instead of a ping") : aborted;
    }
    if (NowTicks() >= deadline) return Late("a ping was not answered");
    if (absl::Status s = endpoint_.Progress(kWait, spin); !s.ok()) return s;
  }
  const uint64_t got = pings_.front();
  pings_.pop_front();
  if (got == number) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("ping ", got, " came instead of ", number));
}

}  // namespace weft::fabric
