#include "agent/session/session_logic.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "agent/idle/idle.h"
#include "agent/runner/probe_spec.h"
#include "base/text.h"
#include "convert/convert.h"

namespace weft {
namespace {

constexpr size_t kMaxRunIdBytes = 64;
constexpr uint32_t kMaxWorldSize = 4096;
constexpr absl::Duration kLeastHeartbeat = absl::Milliseconds(100);
constexpr absl::Duration kMostHeartbeat = absl::Minutes(10);
constexpr absl::Duration kDefaultHeartbeat = absl::Seconds(15);
constexpr absl::Duration kMostSpread = absl::Minutes(10);

SessionAction Reply(const std::string& run_id, v1::Outcome outcome, absl::string_view detail) {
  v1::ConnectRequest request;
  v1::LeaseReply& reply = *request.mutable_lease_reply();
  reply.set_run_id(run_id);
  reply.set_accepted(outcome == v1::OUTCOME_UNSPECIFIED);
  reply.set_outcome(outcome);
  reply.set_detail(std::string(detail));
  return request;
}

SessionAction Accept(const std::string& run_id) { return Reply(run_id, v1::OUTCOME_UNSPECIFIED, ""); }

SessionAction Rendezvous(const std::string& run_id, const std::string& rendezvous) {
  v1::ConnectRequest request;
  request.mutable_rendezvous()->set_run_id(run_id);
  request.mutable_rendezvous()->set_rendezvous(rendezvous);
  return request;
}

v1::ProbeRequest MakeProbeRequest(const v1::Lease& lease, const std::string& rendezvous) {
  v1::ProbeRequest request;
  request.set_run_id(lease.run_id());
  *request.mutable_spec() = lease.spec();
  request.set_rank(lease.rank());
  request.set_world_size(lease.world_size());
  request.set_rendezvous(rendezvous);
  *request.mutable_deadline() = lease.deadline();
  return request;
}

// Everything about a lease that can be judged before its rendezvous is known.
absl::Status CheckLease(const v1::Lease& lease) {
  if (lease.run_id().empty() || lease.run_id().size() > kMaxRunIdBytes || !IsSafeName(lease.run_id()))
    return absl::InvalidArgumentError(
        absl::StrCat("run_id is not 1 to ", kMaxRunIdBytes, " plain characters"));
  if (lease.world_size() > kMaxWorldSize)
    return absl::InvalidArgumentError(absl::StrCat("world_size exceeds ", kMaxWorldSize));
  if (FromProto(lease.start_within()) <= absl::ZeroDuration())
    return absl::InvalidArgumentError("start_within is not above zero");
  return ValidateProbeRequest(MakeProbeRequest(lease, lease.rank() == 0 ? "" : "to come"));
}

}  // namespace

SessionActions SessionLogic::OnMessage(const v1::ConnectResponse& message, absl::Duration now) {
  if (message.has_welcome()) return OnWelcome(message.welcome(), now);
  if (!welcomed_) return {};
  switch (message.message_case()) {
    case v1::ConnectResponse::kLease:
      return OnLease(message.lease(), now);
    case v1::ConnectResponse::kStart:
      return OnStart(message.start(), now);
    case v1::ConnectResponse::kCancel:
      return OnCancel(message.cancel());
    case v1::ConnectResponse::kAck:
      return OnAck(message.ack());
    default:
      return {};  // from a newer server
  }
}

SessionActions SessionLogic::OnWelcome(const v1::Welcome& welcome, absl::Duration now) {
  welcomed_ = true;
  const absl::Duration interval =
      welcome.has_heartbeat_interval() ? FromProto(welcome.heartbeat_interval()) : kDefaultHeartbeat;
  heartbeat_interval_ = std::clamp(interval, kLeastHeartbeat, kMostHeartbeat);
  next_heartbeat_ = now;
  if (welcome.has_reconnect_spread())
    reconnect_spread_ = std::clamp(FromProto(welcome.reconnect_spread()), absl::ZeroDuration(), kMostSpread);
  if (rendezvous_.empty()) return {};
  return {Rendezvous(running_, std::exchange(rendezvous_, ""))};
}

SessionActions SessionLogic::OnLease(const v1::Lease& lease, absl::Duration now) {
  const absl::Status good = CheckLease(lease);
  if (!good.ok()) return {Reply(lease.run_id(), v1::OUTCOME_REFUSED, good.message())};
  const bool again =
      running_ == lease.run_id() || (HoldsLease(now) && lease_->lease.run_id() == lease.run_id());
  if (again) return {Accept(lease.run_id())};
  if (!running_.empty())
    return {Reply(lease.run_id(), v1::OUTCOME_SKIPPED_BUSY, absl::StrCat("runs ", running_))};
  if (HoldsLease(now))
    return {Reply(lease.run_id(), v1::OUTCOME_SKIPPED_BUSY,
                  absl::StrCat("is leased for ", lease_->lease.run_id()))};
  if (const absl::Status idle = CheckIdle(lease.spec()); !idle.ok())
    return {Reply(lease.run_id(), OutcomeOfDecline(idle), idle.message())};
  lease_ = HeldLease{lease, now + FromProto(lease.start_within())};
  return {Accept(lease.run_id())};
}

absl::Status SessionLogic::CheckIdle(const v1::ProbeSpec& spec) const {
  if (!UsesGpu(spec)) return absl::OkStatus();
  if (options_.check_idle) return options_.check_idle();
  return absl::FailedPreconditionError(
      "this agent does not watch GPUs, so it cannot prove that they are idle");
}

SessionActions SessionLogic::OnStart(const v1::Start& start, absl::Duration now) {
  if (running_ == start.run_id()) return {};
  if (!HoldsLease(now) || lease_->lease.run_id() != start.run_id())
    return {Reply(start.run_id(), v1::OUTCOME_REFUSED,
                  "no valid lease: it was never given, or start_within has passed")};
  const v1::ProbeRequest request = MakeProbeRequest(lease_->lease, start.rendezvous());
  lease_.reset();
  const absl::Status good = ValidateProbeRequest(request);
  if (!good.ok()) return {Reply(start.run_id(), v1::OUTCOME_REFUSED, good.message())};
  running_ = start.run_id();
  rendezvous_.clear();
  return {StartRun{request}};
}

SessionActions SessionLogic::OnCancel(const v1::Cancel& cancel) {
  if (lease_.has_value() && lease_->lease.run_id() == cancel.run_id()) lease_.reset();
  if (running_.empty() || running_ != cancel.run_id()) return {};
  return {KillRun{cancel.run_id(), cancel.reason()}};
}

SessionActions SessionLogic::OnAck(const v1::Ack& ack) {
  JudgedRecords judged;
  judged.epoch = ack.epoch();
  judged.stored.assign(ack.stored().begin(), ack.stored().end());
  for (const uint64_t sequence : judged.stored) unjudged_.erase(sequence);
  for (const v1::Rejection& rejection : ack.rejected()) {
    const std::string reason = v1::RejectReason_Name(rejection.reason());
    judged.rejected.push_back(
        {rejection.sequence(), absl::StrCat(reason, ": ", EscapeControl(rejection.detail()))});
    unjudged_.erase(rejection.sequence());
  }
  if (unjudged_.empty()) batch_due_ = absl::InfiniteDuration();
  return {judged};
}

SessionActions SessionLogic::OnRendezvous(const std::string& run_id, const std::string& rendezvous) {
  if (run_id != running_) return {};
  if (welcomed_) return {Rendezvous(run_id, rendezvous)};
  rendezvous_ = rendezvous;
  return {};
}

void SessionLogic::OnRunEnded(const std::string& run_id) {
  if (run_id != running_) return;
  running_.clear();
  rendezvous_.clear();
}

SessionActions SessionLogic::OnTick(absl::Duration now) {
  SessionActions actions;
  if (lease_.has_value() && !HoldsLease(now)) lease_.reset();
  if (now >= next_heartbeat_) {
    next_heartbeat_ = now + heartbeat_interval_;
    actions.push_back(SendHeartbeat{});
  }
  if (now >= batch_due_) {
    unjudged_.clear();
    batch_due_ = absl::InfiniteDuration();
    actions.push_back(ReturnOffered{});
  }
  return actions;
}

void SessionLogic::OnBatchSent(const std::vector<SpooledRecord>& records, absl::Duration now) {
  for (const SpooledRecord& record : records) unjudged_.insert(record.sequence);
  batch_due_ = now + options_.ack_patience;
}

void SessionLogic::OnDisconnected() {
  welcomed_ = false;
  next_heartbeat_ = absl::InfiniteDuration();
  unjudged_.clear();
  batch_due_ = absl::InfiniteDuration();
}

absl::Duration SessionLogic::NextDue() const { return std::min(next_heartbeat_, batch_due_); }

}  // namespace weft
