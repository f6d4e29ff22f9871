#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/probes/nccl/link.h"
#include "agent/probes/process/ticks.h"

namespace weft::nccl {
namespace {

constexpr int64_t kBeatInterval = 200 * kMillisecond;
// For each of participant 0's addresses: an address may lead nowhere, or to somebody else.
constexpr int64_t kConnectPatience = kSecond;
constexpr int64_t kGreetPatience = 2 * kSecond;
constexpr int64_t kRoundPause = 200 * kMillisecond;
constexpr size_t kMaxPendingBytes = 64 << 10;
constexpr int kMaxAddresses = 32;

}  // namespace

absl::StatusOr<std::unique_ptr<Spoke>> Spoke::Open(const std::string& rendezvous, v1::NcclHello hello,
                                                   int64_t give_up) {
  v1::NcclOffer offer;
  if (!offer.ParseFromString(rendezvous) || offer.session().size() != kSessionBytes)
    return absl::InvalidArgumentError("the rendezvous of participant 0 is malformed");
  if (offer.protocol() != kProtocol)
    return absl::InvalidArgumentError(absl::StrCat("participant 0 speaks version ", offer.protocol(),
                                                   " of the probes' protocol, this one ", kProtocol,
                                                   "; all need the same weft-probe-nccl"));
  if (offer.addresses().empty() || offer.addresses_size() > kMaxAddresses)
    return absl::InvalidArgumentError("the rendezvous of participant 0 has no address, or too many");
  hello.set_session(offer.session());
  return std::unique_ptr<Spoke>(new Spoke(std::move(offer), std::move(hello), give_up));
}

Spoke::Spoke(v1::NcclOffer offer, v1::NcclHello hello, int64_t give_up)
    : offer_(std::move(offer)), hello_(std::move(hello)), give_up_(give_up) {}

std::vector<pollfd> Spoke::PollFds() const {
  if (!connection_) return {};
  const short events = stage_ == Stage::kConnecting ? POLLOUT : connection_->events();
  return {{connection_->fd(), events, 0}};
}

void Spoke::TryNext(int64_t now) {
  connection_.reset();
  stage_ = Stage::kIdle;
  if (next_address_ == static_cast<size_t>(offer_.addresses_size())) {
    next_address_ = 0;
    stage_until_ = now + kRoundPause;
    return;
  }
  absl::StatusOr<Connection> connection = Connect(offer_.addresses(static_cast<int>(next_address_++)));
  stage_until_ = now;
  if (!connection.ok()) return;
  connection_.emplace(*std::move(connection));
  stage_ = Stage::kConnecting;
  stage_until_ = now + kConnectPatience;
}

void Spoke::Approach(int64_t now) {
  if (stage_ == Stage::kConnecting && connection_->CheckConnected()) {
    v1::NcclControl message;
    *message.mutable_hello() = hello_;
    connection_->Send(message);
    stage_ = Stage::kGreeting;
    stage_until_ = now + kGreetPatience;
  }
  if ((connection_ && connection_->ended()) || now >= stage_until_) TryNext(now);
}

v1::NcclControl Spoke::OwnVerdict(v1::Outcome outcome, const std::string& detail) {
  stage_ = Stage::kOver;
  v1::NcclControl message;
  message.mutable_verdict()->set_outcome(outcome);
  message.mutable_verdict()->set_detail(detail);
  message.mutable_verdict()->add_missing_ranks(0);
  return message;
}

std::vector<v1::NcclControl> Spoke::Listen(int64_t now) {
  std::vector<v1::NcclControl> told;
  connection_->Flush();
  for (v1::NcclControl& message : connection_->Receive(kMaxPendingBytes)) {
    last_heard_ = now;
    if (message.has_accepted()) stage_ = Stage::kMet;
    if (stage_ != Stage::kMet) continue;
    if (message.has_verdict()) stage_ = Stage::kOver;
    if (message.has_welcome() || message.has_go() || message.has_verdict())
      told.push_back(std::move(message));
  }
  return told;
}

std::vector<v1::NcclControl> Spoke::Turn(int64_t now) {
  if (stage_ == Stage::kOver) return {};
  std::vector<v1::NcclControl> told;
  if (stage_ == Stage::kGreeting || stage_ == Stage::kMet) told = Listen(now);
  if (stage_ == Stage::kOver) return told;
  if (stage_ == Stage::kMet) {
    if (connection_->ended()) {
      told.push_back(OwnVerdict(v1::OUTCOME_FAILED, "the probe of participant 0 ended"));
    } else if (now >= next_beat_) {
      next_beat_ = now + kBeatInterval;
      v1::NcclControl message;
      *message.mutable_beat() = beat_;
      connection_->Send(message);
    }
    return told;
  }
  if (now >= give_up_) {
    told.push_back(
        OwnVerdict(v1::OUTCOME_PARTNER_MISSING, "participant 0 cannot be reached at any of its addresses"));
    return told;
  }
  Approach(now);
  return told;
}

void Spoke::Send(const v1::NcclControl& message, int64_t) {
  if (stage_ == Stage::kMet) connection_->Send(message);
}

void Spoke::SayEntered(uint32_t step, int64_t now) {
  beat_.set_step(step);
  beat_.set_entered(true);
  v1::NcclControl message;
  *message.mutable_beat() = beat_;
  Send(message, now);
}

}  // namespace weft::nccl
