#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "agent/probes/nccl/link.h"
#include "agent/probes/process/ticks.h"
#include "base/id.h"

namespace weft::nccl {
namespace {

constexpr int64_t kBeatInterval = 200 * kMillisecond;
// A connection that has not said who it is.
constexpr int64_t kStrangerPatience = 5 * kSecond;
constexpr size_t kMaxStrangers = 64;
constexpr size_t kMaxHelloBytes = 1024;
constexpr size_t kMaxPendingBytes = 64 << 10;

}  // namespace

Hub::Hub(Options options, int64_t now)
    : world_size_(options.roster.world_size), roster_(std::move(options.roster), now) {}

absl::StatusOr<std::unique_ptr<Hub>> Hub::Open(Options options, int64_t now) {
  const v1::NcclHello own = options.own;
  std::unique_ptr<Hub> hub(new Hub(std::move(options), now));
  if (hub->world_size_ > 1) {
    const absl::StatusOr<Listener> listener = weft::nccl::Listen();
    if (!listener.ok()) return listener.status();
    hub->listener_ = *listener;
    hub->session_ = absl::HexStringToBytes(RandomHex(kSessionBytes));
    v1::NcclOffer offer;
    offer.set_protocol(kProtocol);
    offer.set_session(hub->session_);
    for (const std::string& address : OwnAddresses(listener->port)) offer.add_addresses(address);
    hub->offer_ = offer.SerializeAsString();
  }
  hub->roster_.OnHello(own, now);
  return hub;
}

Hub::~Hub() {
  if (listener_.fd >= 0) close(listener_.fd);
}

std::vector<pollfd> Hub::PollFds() const {
  std::vector<pollfd> fds;
  if (listener_.fd >= 0) fds.push_back({listener_.fd, POLLIN, 0});
  for (const Stranger& s : strangers_) fds.push_back({s.connection.fd(), s.connection.events(), 0});
  for (const auto& [participant, c] : members_) fds.push_back({c.fd(), c.events(), 0});
  return fds;
}

bool Hub::Greet(Stranger* stranger, int64_t now) {
  for (const v1::NcclControl& message : stranger->connection.Receive(kMaxHelloBytes)) {
    const v1::NcclHello& hello = message.hello();
    const uint32_t participant = hello.participant();
    // No answer to who does not know the session.
    if (hello.session() != session_ || participant == 0 || !roster_.OnHello(hello, now)) return true;
    v1::NcclControl accepted;
    accepted.mutable_accepted();
    stranger->connection.Send(accepted);
    // One that comes again has given up the first connection.
    members_.insert_or_assign(participant, std::move(stranger->connection));
    return true;
  }
  return stranger->connection.ended() || now - stranger->since > kStrangerPatience;
}

void Hub::TakeStrangers(int64_t now) {
  while (listener_.fd >= 0) {
    std::optional<Connection> connection = Accept(listener_);
    if (!connection) break;
    if (strangers_.size() < kMaxStrangers + world_size_) strangers_.push_back({std::move(*connection), now});
  }
  std::erase_if(strangers_, [&](Stranger& stranger) { return Greet(&stranger, now); });
}

void Hub::Hear(uint32_t participant, const v1::NcclControl& message, int64_t now) {
  if (message.has_beat()) roster_.OnBeat(participant, message.beat(), now);
  if (message.has_done()) roster_.OnDone(participant, message.done(), now);
  if (message.has_failure()) roster_.OnFailure(participant, message.failure(), now);
}

void Hub::HearAll(int64_t now) {
  std::vector<uint32_t> gone;
  for (auto& [participant, connection] : members_) {
    connection.Flush();
    for (const v1::NcclControl& message : connection.Receive(kMaxPendingBytes))
      Hear(participant, message, now);
    if (connection.ended()) gone.push_back(participant);
  }
  for (const uint32_t participant : gone) {
    members_.erase(participant);
    roster_.OnGone(participant, now);
  }
}

void Hub::Broadcast(const v1::NcclControl& message) {
  for (auto& [participant, connection] : members_) connection.Send(message);
}

void Hub::Beat(int64_t now) {
  if (now < next_beat_) return;
  next_beat_ = now + kBeatInterval;
  v1::NcclControl message;
  *message.mutable_beat() = roster_.beat();
  Broadcast(message);
  // This process hears itself.
  v1::NcclBeat own;
  own.set_step(roster_.beat().step());
  roster_.OnBeat(0, own, now);
}

std::vector<v1::NcclControl> Hub::Turn(int64_t now) {
  TakeStrangers(now);
  HearAll(now);
  Beat(now);
  roster_.OnTick(now);
  std::vector<v1::NcclControl> messages = roster_.TakeMessages();
  for (const v1::NcclControl& message : messages) Broadcast(message);
  return messages;
}

void Hub::Send(const v1::NcclControl& message, int64_t now) { Hear(0, message, now); }

void Hub::SayEntered(uint32_t step, int64_t now) {
  v1::NcclBeat beat;
  beat.set_step(step);
  beat.set_entered(true);
  roster_.OnBeat(0, beat, now);
}

}  // namespace weft::nccl
