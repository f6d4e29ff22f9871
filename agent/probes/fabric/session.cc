#include "agent/probes/fabric/session.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/probes/fabric/latency.h"
#include "agent/probes/fabric/pattern.h"

namespace weft::fabric {
namespace {

constexpr uint8_t kPoison = 0xA5;
constexpr useconds_t kRetryMicroseconds = 20000;
constexpr size_t kLatencyOperations = 64;
constexpr int64_t kFarewell = 200 * kMillisecond;
// Seeds of a transfer: any two of a run differ.
uint64_t WarmUpSeed(uint32_t step) { return uint64_t{step} * 2; }
uint64_t TimedSeed(uint32_t step) { return uint64_t{step} * 2 + 1; }

// The lesser of two emulated links, of which 0 is none.
double SlowerLink(double a, double b) {
  if (a <= 0 || b <= 0) return std::max(a, b);
  return std::min(a, b);
}

}  // namespace

Session::Session(Endpoint& endpoint, const Parameters& parameters, Options options, PhaseSink on_phase)
    : endpoint_(endpoint),
      parameters_(parameters),
      options_(std::move(options)),
      on_phase_(std::move(on_phase)) {}

absl::Status Session::Run() {
  absl::Status status = RunSteps();
  if (!status.ok()) TellAbort(status);
  return status;
}

absl::Status Session::RunSteps() {
  on_phase_("rendezvous");
  if (parameters_.region_bytes > 0) {
    absl::StatusOr<Region> region = endpoint_.Register(parameters_.region_bytes);
    if (!region.ok()) return region.status();
    region_.emplace(std::move(*region));
  }
  absl::StatusOr<std::unique_ptr<Channel>> channel = Channel::Open(endpoint_, options_.token);
  if (!channel.ok()) return channel.status();
  channel_ = std::move(*channel);
  if (absl::Status s = Meet(); !s.ok()) return s;
  for (const Transfer& transfer : parameters_.transfers)
    for (const uint32_t writer : {0U, 1U})
      if (absl::Status s = RunTransfer(transfer, writer); !s.ok()) return s;
  if (parameters_.latency_iterations > 0)
    if (absl::Status s = RunLatency(); !s.ok()) return s;
  return Part();
}

absl::Status Session::Meet() {
  absl::Status status = options_.rank == 0 ? MeetAsRank0() : MeetAsRank1();
  // Until both have met, silence and refusal mean the same: nobody is there.
  if (absl::IsDeadlineExceeded(status) || absl::IsUnavailable(status))
    return absl::NotFoundError(absl::StrCat("rank ", 1 - options_.rank, " never came to ",
                                            endpoint_.device().provider, " ", endpoint_.device().domain, " (",
                                            status.message(), ")"));
  return status;
}

ControlMessage Session::Introduce(ControlType type) const {
  ControlMessage message;
  message.type = type;
  message.values[kDigest] = parameters_.digest;
  message.values[kLinkRate] = static_cast<uint64_t>(std::ceil(options_.link_rate));
  if (region_) {
    message.values[kRegionAddress] = region_->remote_address();
    message.values[kRegionKey] = region_->key();
    message.values[kRegionBytes] = region_->bytes().size();
  }
  if (type == ControlType::kHello) message.blob = endpoint_.address();
  return message;
}

absl::Status Session::TakeIntroduction(const ControlMessage& message) {
  if (message.values[kDigest] != parameters_.digest ||
      message.values[kRegionBytes] < parameters_.region_bytes)
    return absl::FailedPreconditionError("the two ends were told to measure different things");
  peer_region_ = {message.values[kRegionAddress], message.values[kRegionKey]};
  link_rate_ = SlowerLink(options_.link_rate, static_cast<double>(message.values[kLinkRate]));
  return absl::OkStatus();
}

absl::Status Session::MeetAsRank0() {
  absl::StatusOr<ControlMessage> hello = Hear(ControlType::kHello);
  if (!hello.ok()) return hello.status();
  absl::StatusOr<fi_addr_t> peer = endpoint_.Insert(hello->blob);
  if (!peer.ok()) return peer.status();
  channel_->set_peer(peer_ = *peer);
  if (absl::Status s = TakeIntroduction(*hello); !s.ok()) return s;
  return channel_->Send(Introduce(ControlType::kWelcome), options_.deadline);
}

// Connecting may fail for a moment, e.g. while rank 0's host is busy.
absl::Status Session::SendHello() {
  while (true) {
    absl::Status sent = channel_->Send(Introduce(ControlType::kHello), options_.deadline);
    if (!absl::IsUnavailable(sent) || NowTicks() >= options_.deadline) return sent;
    usleep(kRetryMicroseconds);
  }
}

absl::Status Session::MeetAsRank1() {
  absl::StatusOr<fi_addr_t> peer = endpoint_.Insert(options_.peer_address);
  if (!peer.ok()) return peer.status();
  channel_->set_peer(peer_ = *peer);
  if (absl::Status s = SendHello(); !s.ok()) return s;
  absl::StatusOr<ControlMessage> welcome = Hear(ControlType::kWelcome);
  if (!welcome.ok()) return welcome.status();
  return TakeIntroduction(*welcome);
}

absl::Status Session::RunTransfer(const Transfer& transfer, uint32_t writer_rank) {
  ++step_;
  return options_.rank == writer_rank ? WriteTo(transfer) : BeWritten(transfer);
}

absl::StatusOr<WriteTimes> Session::TimedWrite(Writer& writer, const Transfer& transfer) {
  on_phase_("write");
  absl::StatusOr<WriteTimes> times = writer.Write(transfer.messages, TimedSeed(step_), options_.deadline);
  if (!times.ok()) return times;
  if (absl::Status s = Tell(ControlType::kDone, TimedSeed(step_)); !s.ok()) return s;
  if (absl::Status s = Hear(ControlType::kReceived).status(); !s.ok()) return s;
  if (!endpoint_.device().delivery_complete) times->end = NowTicks();
  return times;
}

absl::Status Session::WriteTo(const Transfer& transfer) {
  on_phase_("warm_up");
  if (absl::Status s = Hear(ControlType::kReady).status(); !s.ok()) return s;
  Writer writer(endpoint_, *region_,
                {.message_bytes = transfer.message_bytes,
                 .slots = transfer.slots,
                 .target = peer_region_,
                 .peer = peer_,
                 .link_rate = link_rate_});
  if (const auto warm = writer.Write(transfer.warm_up_messages, WarmUpSeed(step_), options_.deadline);
      !warm.ok())
    return warm.status();
  absl::StatusOr<WriteTimes> times = TimedWrite(writer, transfer);
  if (!times.ok()) return times.status();
  on_phase_("check");
  if (absl::Status s = Hear(ControlType::kChecked).status(); !s.ok()) return s;
  const double seconds = static_cast<double>(times->end - times->start) / 1e9;
  v1::Measurement& m = AddMeasurement(v1::METRIC_WRITE_BANDWIDTH, transfer.message_bytes);
  m.set_value(static_cast<double>(transfer.moved_bytes()) / seconds);
  m.set_moved_bytes(transfer.moved_bytes());
  m.set_elapsed_seconds(seconds);
  *m.mutable_distribution() = Summarize(std::move(times->block_rates));
  return absl::OkStatus();
}

absl::Status Session::BeWritten(const Transfer& transfer) {
  on_phase_("warm_up");
  std::memset(region_->bytes().data(), kPoison, transfer.slots * transfer.message_bytes);
  if (absl::Status s = Tell(ControlType::kReady); !s.ok()) return s;
  on_phase_("write");
  absl::StatusOr<ControlMessage> done = Hear(ControlType::kDone);
  if (!done.ok()) return done.status();
  if (absl::Status s = Tell(ControlType::kReceived); !s.ok()) return s;
  on_phase_("check");
  const auto bad = CheckRegion(region_->bytes(), transfer.message_bytes, transfer.slots, transfer.messages,
                               TimedSeed(step_));
  if (bad)
    return absl::DataLossError(absl::StrCat("wrong contents on ", endpoint_.device().domain, ": slot ",
                                            bad->slot, ", byte ", bad->offset, " of ", transfer.message_bytes,
                                            "; the path corrupts data, take this NIC out of service"));
  return Tell(ControlType::kChecked);
}

absl::StatusOr<fi_addr_t> Session::ExchangeAddresses(Endpoint& mine) {
  ControlMessage message;
  message.type = ControlType::kGo;
  message.step = step_;
  message.blob = mine.address();
  const auto send = [&] { return channel_->Send(message, options_.deadline); };
  if (options_.rank == 1)
    if (absl::Status s = send(); !s.ok()) return s;
  absl::StatusOr<ControlMessage> theirs = Hear(ControlType::kGo);
  if (!theirs.ok()) return theirs.status();
  absl::StatusOr<fi_addr_t> peer = mine.Insert(theirs->blob);
  if (options_.rank == 0 && peer.ok())
    if (absl::Status s = send(); !s.ok()) return s;
  return peer;
}

absl::Status Session::RunLatency() {
  on_phase_("latency");
  ++step_;
  auto endpoint = Endpoint::Open(Copy(endpoint_.device()), kLatencyOperations, Waiting::kNap);
  if (!endpoint.ok()) return endpoint.status();
  auto channel = Channel::Open(**endpoint, options_.token);
  if (!channel.ok()) return channel.status();
  // Rank 0 sends its address last and then pings: rank 1 does nothing else by then.
  absl::StatusOr<fi_addr_t> peer = ExchangeAddresses(**endpoint);
  if (!peer.ok()) return peer.status();
  (*channel)->set_peer(*peer);
  const int64_t start = NowTicks();
  absl::StatusOr<std::vector<double>> samples =
      MeasureLatency(**channel, options_.rank, parameters_.latency_iterations, options_.deadline);
  if (!samples.ok()) return samples.status();
  v1::Measurement& m = AddMeasurement(v1::METRIC_LATENCY, sizeof(uint64_t));
  m.set_moved_bytes(samples->size() * sizeof(uint64_t));
  m.set_elapsed_seconds(static_cast<double>(NowTicks() - start) / 1e9);
  *m.mutable_distribution() = Summarize(std::move(*samples));
  m.set_value(m.distribution().p50());
  return absl::OkStatus();
}

// Rank 0 says goodbye first and rank 1 answers, so that both know that the other has all it needs. Whether
// the last answer arrives is no part of the measurement.
absl::Status Session::Part() {
  ++step_;
  if (options_.rank == 1) {
    if (absl::Status s = Hear(ControlType::kBye).status(); !s.ok()) return s;
    return Tell(ControlType::kBye);
  }
  if (absl::Status s = Tell(ControlType::kBye); !s.ok()) return s;
  return Hear(ControlType::kBye).status();
}

void Session::TellAbort(const absl::Status& why) {
  if (!channel_ || peer_ == FI_ADDR_UNSPEC || absl::IsAborted(why) || absl::IsUnavailable(why) ||
      absl::IsNotFound(why))
    return;
  ControlMessage message;
  message.type = ControlType::kAbort;
  message.step = step_;
  message.blob = std::string(why.message().substr(0, kMaxBlobBytes));
  // It may be gone; then nobody needs to know.
  channel_->Send(message, NowTicks() + kFarewell).IgnoreError();
}

absl::Status Session::Tell(ControlType type, uint64_t value) {
  ControlMessage message;
  message.type = type;
  message.step = step_;
  message.values[0] = value;
  return channel_->Send(message, options_.deadline);
}

absl::StatusOr<ControlMessage> Session::Hear(ControlType type) {
  return channel_->Expect(type, step_, options_.deadline);
}

v1::Measurement& Session::AddMeasurement(v1::Metric metric, uint64_t message_bytes) {
  v1::Measurement& m = measurements_.emplace_back();
  m.set_metric(metric);
  m.set_device(endpoint_.device().domain);
  m.set_message_size_bytes(message_bytes);
  return m;
}

}  // namespace weft::fabric
