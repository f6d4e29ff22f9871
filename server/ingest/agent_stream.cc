#include "server/ingest/agent_stream.h"

#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "convert/convert.h"
#include "server/ingest/validate.h"
#include "spdlog/spdlog.h"

namespace weft {
namespace {

// An agent that does not read this many messages is stuck: runs are few and acks are one per batch.
constexpr size_t kMaxOutgoing = 256;
constexpr size_t kMaxRendezvousBytes = 4096;
constexpr size_t kMaxDetailBytes = 4096;

grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

void Reject(v1::Ack& ack, uint64_t sequence, v1::RejectReason reason, const std::string& detail) {
  v1::Rejection* rejection = ack.add_rejected();
  rejection->set_sequence(sequence);
  rejection->set_reason(reason);
  rejection->set_detail(detail);
}

}  // namespace

AgentStream::AgentStream(AgentService& service, std::string allowed_name)
    : service_(service), allowed_name_(std::move(allowed_name)), last_heard_(service.clock_.Monotonic()) {}

AgentStream* AgentStream::Open(AgentService& service, std::string allowed_name) {
  std::shared_ptr<AgentStream> stream(new AgentStream(service, std::move(allowed_name)));
  stream->self_ = stream;
  stream->ReadNext();
  return stream.get();
}

void AgentStream::ReadNext() {
  MutexLock lock(mutex_);
  if (!closed_) StartRead(&request_);
}

void AgentStream::Send(v1::ConnectResponse message) {
  {
    MutexLock lock(mutex_);
    if (closed_) return;
    if (outgoing_.size() < kMaxOutgoing) {
      outgoing_.push_back(std::move(message));
      if (outgoing_.size() == 1) StartWrite(&outgoing_.front());
      return;
    }
  }
  Close(absl::ResourceExhaustedError("the agent does not read what it is sent"));
}

void AgentStream::Close(const absl::Status& status) {
  MutexLock lock(mutex_);
  if (closed_) return;
  closed_ = true;
  Finish(ToGrpc(status));
}

bool AgentStream::IsSilent() {
  MutexLock lock(mutex_);
  return service_.clock_.Monotonic() - last_heard_ > 2 * service_.options_.heartbeat_interval;
}

void AgentStream::OnWriteDone(bool ok) {
  MutexLock lock(mutex_);
  outgoing_.pop_front();
  if (closed_) return;
  if (!ok) {
    closed_ = true;
    Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the stream broke"));
  } else if (!outgoing_.empty()) {
    StartWrite(&outgoing_.front());
  }
}

void AgentStream::OnCancel() { Close(absl::CancelledError("the agent went away")); }

void AgentStream::OnDone() {
  if (!node_id_.empty() && service_.streams_.Leave(node_id_, this)) Emit({node_id_, AgentGone{}});
  self_.reset();
}

void AgentStream::OnReadDone(bool ok) {
  if (!ok) {
    // Also what an unreadable message looks like, e.g. a hostname that is not UTF-8.
    return Close(node_id_.empty() ? absl::InvalidArgumentError("the stream ended before a readable hello")
                                  : absl::OkStatus());
  }
  {
    MutexLock lock(mutex_);
    last_heard_ = service_.clock_.Monotonic();
  }
  Handle();
}

void AgentStream::Handle() {
  absl::Status status;
  bool read_on = true;
  using Message = v1::ConnectRequest;
  if (node_id_.empty() != (request_.message_case() == Message::kHello)) {
    status = absl::InvalidArgumentError("a stream begins with one hello");
  } else {
    switch (request_.message_case()) {
      case Message::kHello:
        status = HandleHello(request_.hello());
        break;
      case Message::kHeartbeat:
        status = HandleHeartbeat(request_.heartbeat());
        break;
      case Message::kLeaseReply:
        HandleLeaseReply(request_.lease_reply());
        break;
      case Message::kRendezvous:
        status = HandleRendezvous(*request_.mutable_rendezvous());
        break;
      case Message::kResults:
        status = HandleResults(*request_.mutable_results());
        read_on = false;
        break;
      case Message::MESSAGE_NOT_SET:
        break;  // a newer agent's message: not for this server
    }
  }
  if (!status.ok()) {
    spdlog::warn("agent {}: stream ended: {}", node_id_.empty() ? "?" : node_id_,
                 std::string(status.message()));
    Close(status);
  } else if (read_on) {
    ReadNext();
  }
}

absl::Status AgentStream::CheckName(const v1::Node& node) const {
  if (allowed_name_.empty() || allowed_name_ == node.node_id() || allowed_name_ == node.hostname())
    return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("the certificate is for ", EscapeControl(allowed_name_),
                                                  ", not for ", node.hostname(), " (", node.node_id(), ")"));
}

absl::Status AgentStream::HandleHello(const v1::Hello& hello) {
  if (absl::Status status = ValidateHello(hello); !status.ok()) return status;
  if (absl::Status status = CheckName(hello.node()); !status.ok()) return status;
  boot_id_ = hello.boot_id();
  epoch_ = hello.epoch();
  if (absl::Status status = service_.streams_.Enter(hello.node().node_id(), shared_from_this());
      !status.ok()) {
    return status;
  }
  node_id_ = hello.node().node_id();
  const absl::Time now = service_.clock_.Now();
  NodeRecord record;
  record.node = FromProto(hello.node());
  record.boot_id = boot_id_;
  record.first_seen = now;
  record.last_seen = now;
  record.clock_offset = hello.has_agent_time() ? FromProto(hello.agent_time()) - now : absl::ZeroDuration();
  if (absl::Status status = service_.store_.PutNode(record); !status.ok()) return status;

  v1::ConnectResponse response;
  v1::Welcome* welcome = response.mutable_welcome();
  ToProto(service_.options_.heartbeat_interval, welcome->mutable_heartbeat_interval());
  ToProto(service_.options_.reconnect_spread, welcome->mutable_reconnect_spread());
  welcome->set_server_version(service_.options_.server_version);
  Send(std::move(response));
  Emit({node_id_,
        AgentConnected{std::move(record), {hello.probe_kinds().begin(), hello.probe_kinds().end()}}});
  return absl::OkStatus();
}

absl::Status AgentStream::HandleHeartbeat(const v1::Heartbeat& heartbeat) {
  const absl::Time now = service_.clock_.Now();
  const absl::Duration offset =
      heartbeat.has_agent_time() ? FromProto(heartbeat.agent_time()) - now : absl::ZeroDuration();
  Emit({node_id_,
        AgentHeartbeat{now, offset, heartbeat.spool_lost_records(), heartbeat.spool_damaged_files()}});
  if (!heartbeat.has_node()) return absl::OkStatus();
  const v1::Node& node = heartbeat.node();
  if (absl::Status status = ValidateNode(node); !status.ok()) return status;
  if (node.node_id() != node_id_)
    return absl::InvalidArgumentError("a heartbeat describes another node than the stream's");
  if (absl::Status status = CheckName(node); !status.ok()) return status;
  NodeRecord record;
  record.node = FromProto(node);
  record.boot_id = boot_id_;
  record.first_seen = now;
  record.last_seen = now;
  record.clock_offset = offset;
  record.spool_lost_records = heartbeat.spool_lost_records();
  return service_.store_.PutNode(record);
}

void AgentStream::HandleLeaseReply(const v1::LeaseReply& reply) {
  LeaseAnswered answer;
  answer.run_id = reply.run_id();
  answer.accepted = reply.accepted();
  if (reply.outcome() > v1::OUTCOME_OK && reply.outcome() <= v1::OUTCOME_YIELDED) {
    answer.outcome = static_cast<Outcome>(reply.outcome());
  }
  answer.detail = CutUtf8(EscapeControl(reply.detail()), kMaxDetailBytes);
  Emit({node_id_, std::move(answer)});
}

absl::Status AgentStream::HandleRendezvous(v1::Rendezvous& rendezvous) {
  if (rendezvous.rendezvous().size() > kMaxRendezvousBytes) {
    return absl::InvalidArgumentError(absl::StrCat("rendezvous of ", rendezvous.rendezvous().size(),
                                                   " bytes exceeds the limit of ", kMaxRendezvousBytes));
  }
  Emit({node_id_, RendezvousOffered{rendezvous.run_id(), std::move(*rendezvous.mutable_rendezvous())}});
  return absl::OkStatus();
}

absl::Status AgentStream::HandleResults(v1::ResultBatch& batch) {
  if (batch.epoch() != epoch_)
    return absl::InvalidArgumentError("a batch names another epoch than the hello");
  if (batch.records_size() > kMaxRecordsPerBatch) {
    return absl::InvalidArgumentError(absl::StrCat("batch of ", batch.records_size(),
                                                   " records exceeds the limit of ", kMaxRecordsPerBatch));
  }
  v1::Ack ack;
  ack.set_epoch(epoch_);
  ResultAppend append;
  append.node_id = node_id_;
  append.epoch = epoch_;
  std::map<uint64_t, ResultStored> results;
  for (const v1::SpoolRecord& record : batch.records()) {
    std::variant<Result, RecordRefusal> judged = ValidateRecord(record, node_id_);
    if (const auto* refusal = std::get_if<RecordRefusal>(&judged)) {
      Reject(ack, record.sequence(), refusal->reason, refusal->detail);
      continue;
    }
    Result& result = std::get<Result>(judged);
    results[record.sequence()] = {result.run_id, result.outcome, result.detail};
    append.records.push_back({record.sequence(), std::move(result)});
  }
  if (append.records.empty()) {
    AckBatch(ResultAppendOutcome{}, std::move(ack), results);
    return absl::OkStatus();
  }
  // The callback holds the stream, which may be closed by then; the commit counts all the same.
  const auto done = [self = shared_from_this(), ack, results](absl::StatusOr<ResultAppendOutcome> outcome) {
    self->AckBatch(outcome, ack, results);
  };
  if (absl::Status status = service_.store_.AppendResults(std::move(append), done); !status.ok()) {
    AckBatch(status, std::move(ack), results);
  }
  return absl::OkStatus();
}

void AgentStream::AckBatch(const absl::StatusOr<ResultAppendOutcome>& outcome, v1::Ack ack,
                           const std::map<uint64_t, ResultStored>& results) {
  if (outcome.ok()) {
    for (const uint64_t sequence : outcome->stored) {
      ack.add_stored(sequence);
      if (const auto found = results.find(sequence); found != results.end()) Emit({node_id_, found->second});
    }
    for (const uint64_t sequence : outcome->duplicate) ack.add_stored(sequence);
    for (const uint64_t sequence : outcome->unknown_run) {
      Reject(ack, sequence, v1::REJECT_REASON_UNKNOWN_RUN, "the server knows no such run");
    }
    for (const uint64_t sequence : outcome->wrong_node) {
      Reject(ack, sequence, v1::REJECT_REASON_WRONG_NODE, "the node does not hold that rank of the run");
    }
    if (!outcome->duplicate.empty()) Emit({node_id_, RecordsRepeated{outcome->duplicate.size()}});
  } else {
    spdlog::warn("agent {}: results not stored, they will come again: {}", node_id_,
                 std::string(outcome.status().message()));
  }
  std::map<v1::RejectReason, uint64_t> refused;
  for (const v1::Rejection& rejection : ack.rejected()) ++refused[rejection.reason()];
  for (const auto& [reason, records] : refused) Emit({node_id_, RecordsRefused{reason, records}});
  v1::ConnectResponse response;
  *response.mutable_ack() = std::move(ack);
  Send(std::move(response));
  ReadNext();
}

}  // namespace weft
