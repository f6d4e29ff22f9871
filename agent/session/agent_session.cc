#include "agent/session/agent_session.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/runner/probe_spec.h"
#include "base/text.h"
#include "convert/convert.h"

namespace weft {
namespace {

constexpr size_t kBatchRecords = 100;
constexpr size_t kBatchBytes = (1 << 20) - (16 << 10);  // the rest is for the records' frames
constexpr size_t kMaxOutgoing = 64;
constexpr size_t kMaxPendingResults = 64;
constexpr int kMaxMessageBytes = 4 << 20;
constexpr absl::Duration kRetry = absl::Seconds(1);
constexpr absl::Duration kDial = absl::Seconds(1);  // what connecting mostly takes, TLS and all

// What a person should know of a lost stream, without the parts that change with every try.
std::string Cause(const grpc::Status& status) {
  std::string cause = EscapeControl(CutUtf8(ToValidUtf8(status.error_message()), 512));
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return "the server ended the stream";
    case grpc::StatusCode::ALREADY_EXISTS:
      return absl::StrCat(cause,
                          " (another agent speaks with this node's id: if this disk was cloned, remove ",
                          "node_id and the spool folder from state_dir and start again)");
    default:
      return absl::StrCat(cause, " (code ", static_cast<int>(status.error_code()), ")");
  }
}

// A result that the server would refuse for its length keeps its verdict and loses its numbers.
v1::Result Shorten(v1::Result result, size_t bytes) {
  result.clear_measurements();
  result.clear_tool_output();
  result.clear_nccl();
  result.set_outcome(v1::OUTCOME_FAILED);
  result.set_detail(absl::StrCat("the result of ", bytes, " bytes exceeds the limit of ",
                                 kMaxSpoolRecordBytes, "; its numbers were dropped"));
  result.set_phase(CutUtf8(result.phase(), 64));
  result.clear_provider();
  result.clear_stack_fingerprint();
  result.clear_missing_ranks();
  return result;
}

std::string Serialise(const v1::Result& result) {
  const std::string bytes = result.SerializeAsString();
  return bytes.size() <= kMaxSpoolRecordBytes ? bytes : Shorten(result, bytes.size()).SerializeAsString();
}

std::function<absl::Status()> IdleCheck(const IdleProof* idle) {
  if (idle == nullptr) return {};
  return [idle] { return idle->CheckNow(); };
}

// gRPC 1.51 shuts its callback threads down with the last channel that used them, and now and then aborts the
// process on that way (a completion queue is released once too often). So that way is never taken.
void KeepForEver(const std::shared_ptr<grpc::Channel>& channel) {
  static Mutex mutex;
  static auto* const channels = new std::vector<std::shared_ptr<grpc::Channel>>;
  MutexLock lock(mutex);
  channels->push_back(channel);
}

}  // namespace

std::shared_ptr<grpc::Channel> MakeAgentChannel(
    const std::string& server_address, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  // The default stops pinging an idle stream after two.
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  args.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  // Proxy variables of the environment are for the web, not for the fleet's own traffic.
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // gRPC's own pace knows nothing of the fleet's size: the session's waits set the pace, see MayConnect.
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 120'000);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 120'000);
  args.SetMaxReceiveMessageSize(kMaxMessageBytes);
  std::shared_ptr<grpc::Channel> channel = grpc::CreateCustomChannel(server_address, credentials, args);
  KeepForEver(channel);
  return channel;
}

void AgentSession::Bell::Ring() {
  MutexLock lock(mutex);
  if (worker != nullptr) worker->Wake();
}

AgentSession::AgentSession(const Options& options, Parts parts)
    : options_(options),
      parts_(std::move(parts)),
      stub_(v1::AgentService::NewStub(parts_.channel)),
      logic_(SessionLogic::Options{.ack_patience = options.patience, .check_idle = IdleCheck(parts_.idle)}),
      waits_(options.reconnect),
      runs_(*parts_.runner, parts_.idle, parts_.transport,
            {.on_rendezvous =
                 [this](const std::string& run_id, const std::string& rendezvous) {
                   AddRunEvent({run_id, rendezvous});
                 },
             .on_result = [this](v1::Result result) { OnResult(std::move(result)); },
             .emulated_rate = parts_.emulated_rate}),
      worker_("weft-session", *parts_.clock, [this] { return Step(); }),
      bell_(std::make_shared<Bell>()) {
  MutexLock lock(bell_->mutex);
  bell_->worker = &worker_;
}

AgentSession::~AgentSession() { Stop(); }

void AgentSession::Start() {
  runs_.Start();
  worker_.Start();
}

void AgentSession::Stop() {
  if (std::exchange(stopped_, true)) return;
  runs_.Stop();
  worker_.Stop();
  {
    MutexLock lock(bell_->mutex);
    bell_->worker = nullptr;
  }
  SpoolPending();
  if (stream_ == nullptr) return;
  stream_->Close();
  stream_->AwaitEnd();
  // What was on its way and not judged is offered again by whoever uses the spool next.
  parts_.spool->ReturnOffered();
}

absl::Duration AgentSession::Step() {
  const absl::Duration now = parts_.clock->Monotonic();
  SpoolPending();
  HandleRunEvents();
  if (stream_ == nullptr) {
    if (!MayConnect(now)) return next_connect_ - now;
    Connect();
  }
  Converse(now);
  if (const std::optional<grpc::Status> status = stream_->ended()) HandleEnd(*status, now);
  const absl::Duration due = stream_ == nullptr ? next_connect_ : logic_.NextDue();
  return std::min(std::max(due - now, absl::ZeroDuration()), LongestWait());
}

// An idle agent sleeps until it is called or due: each needless wake-up costs every node of the fleet.
absl::Duration AgentSession::LongestWait() {
  const bool watched = std::min(write_since_, connect_since_) != absl::InfiniteDuration();
  MutexLock lock(mutex_);
  return watched || !pending_results_.empty() || !outgoing_.empty() ? kRetry : absl::InfiniteDuration();
}

// A channel that failed to connect refuses streams until it has connected by itself. It dials when told to,
// and so at the pace of the waits; the stream follows a little later.
bool AgentSession::MayConnect(absl::Duration now) {
  if (now < next_connect_) return false;
  const bool dialled = std::exchange(dialled_, false);
  if (dialled || parts_.channel->GetState(false) != GRPC_CHANNEL_TRANSIENT_FAILURE) return true;
  grpc::experimental::ChannelResetConnectionBackoff(parts_.channel.get());
  dialled_ = true;
  next_connect_ = now + kDial;
  return false;
}

void AgentSession::Connect() {
  outgoing_.clear();
  outgoing_.push_back(MakeHello());
  connect_since_ = parts_.clock->Monotonic();
  stream_ = ServerStream::Open(*stub_, [bell = bell_] { bell->Ring(); });
}

v1::ConnectRequest AgentSession::MakeHello() const {
  v1::ConnectRequest request;
  v1::Hello& hello = *request.mutable_hello();
  *hello.mutable_node() = parts_.describe_node();
  hello.set_boot_id(options_.boot_id);
  hello.set_epoch(parts_.spool->epoch());
  ToProto(parts_.clock->Now(), hello.mutable_agent_time());
  for (const std::string& kind : parts_.runner->Kinds()) hello.add_probe_kinds(kind);
  return request;
}

void AgentSession::Converse(absl::Duration now) {
  while (const std::optional<v1::ConnectResponse> message = stream_->Take()) {
    const bool was_welcomed = logic_.welcomed();
    Apply(logic_.OnMessage(*message, now));
    if (was_welcomed || !logic_.welcomed()) continue;
    connect_since_ = absl::InfiniteDuration();
    waits_.OnWelcome(logic_.reconnect_spread().value_or(options_.reconnect.spread));
    last_cause_.clear();
    spdlog::info("connected to the server, version {}",
                 EscapeControl(CutUtf8(ToValidUtf8(message->welcome().server_version()), 64)));
  }
  Apply(logic_.OnTick(now));
  WriteNext(now);
  CheckPatience(now);
  if (stream_->broken()) stream_->Close();
}

void AgentSession::HandleEnd(const grpc::Status& status, absl::Duration now) {
  stream_ = nullptr;
  logic_.OnDisconnected();
  parts_.spool->ReturnOffered();
  write_since_ = connect_since_ = absl::InfiniteDuration();
  const absl::Duration wait = waits_.Next();
  next_connect_ = now + wait;
  const std::string own = std::exchange(close_cause_, "");
  const std::string cause = own.empty() ? Cause(status) : own;
  // Once per change: a server that is down for an hour is one line, not thousands.
  if (std::exchange(last_cause_, cause) != cause)
    spdlog::warn("no stream to the server: {}; trying again and again, next in {:.1f} s", cause,
                 absl::ToDoubleSeconds(wait));
}

void AgentSession::CheckPatience(absl::Duration now) {
  const absl::Duration since = std::min(write_since_, connect_since_);
  const bool full = outgoing_.size() > kMaxOutgoing;
  if (now - since <= options_.patience && !full) return;
  close_cause_ = connect_since_ == since ? "the server sent no Welcome" : "the server does not read";
  stream_->Close();
}

void AgentSession::Apply(SessionActions actions) {
  for (SessionAction& action : actions) std::visit([this](auto& one) { Perform(std::move(one)); }, action);
}

void AgentSession::Perform(v1::ConnectRequest message) { outgoing_.push_back(std::move(message)); }

void AgentSession::Perform(const StartRun& start) { runs_.Run(start.request); }

void AgentSession::Perform(const KillRun& kill) {
  spdlog::info("run {} is cancelled: {}", kill.run_id, EscapeControl(CutUtf8(ToValidUtf8(kill.reason), 256)));
  runs_.Cancel(kill.run_id);
}

void AgentSession::Perform(const JudgedRecords& judged) {
  parts_.spool->Ack(judged.epoch, judged.stored);
  parts_.spool->Reject(judged.epoch, judged.rejected);
  for (const SpoolRejection& rejection : judged.rejected)
    spdlog::warn("the server refused record {} for good: {}; set aside in the spool's `rejected` file",
                 rejection.sequence, CutUtf8(ToValidUtf8(rejection.reason), 256));
}

void AgentSession::Perform(const SendHeartbeat&) {
  v1::ConnectRequest request;
  v1::Heartbeat& heartbeat = *request.mutable_heartbeat();
  // A newer one takes the place of one that still waits, and carries its node on.
  std::erase_if(outgoing_, [&](v1::ConnectRequest& waiting) {
    if (waiting.heartbeat().has_node()) *heartbeat.mutable_node() = waiting.heartbeat().node();
    return waiting.has_heartbeat();
  });
  const SpoolStats stats = parts_.spool->stats();
  ToProto(parts_.clock->Now(), heartbeat.mutable_agent_time());
  heartbeat.set_spool_records(stats.records);
  heartbeat.set_spool_rejected_records(stats.rejected_records);
  heartbeat.set_spool_damaged_files(stats.damaged_files);
  if (std::optional<v1::Node> node = parts_.describe_change ? parts_.describe_change() : std::nullopt)
    *heartbeat.mutable_node() = *std::move(node);
  MutexLock lock(mutex_);
  heartbeat.set_spool_lost_records(stats.lost_records + lost_results_);
  outgoing_.push_back(std::move(request));
}

void AgentSession::Perform(const ReturnOffered&) { parts_.spool->ReturnOffered(); }

// Batches are made only when nothing else waits to be written: answers go before the backlog.
void AgentSession::QueueBatch(absl::Duration now) {
  const std::vector<SpooledRecord> records = parts_.spool->Offer(kBatchRecords, kBatchBytes);
  if (records.empty()) return;
  v1::ConnectRequest request;
  request.mutable_results()->set_epoch(parts_.spool->epoch());
  for (const SpooledRecord& record : records) {
    v1::SpoolRecord& out = *request.mutable_results()->add_records();
    out.set_sequence(record.sequence);
    out.set_result(record.payload);
  }
  logic_.OnBatchSent(records, now);
  outgoing_.push_back(std::move(request));
}

void AgentSession::WriteNext(absl::Duration now) {
  if (!stream_->writable()) return;
  write_since_ = absl::InfiniteDuration();
  if (outgoing_.empty() && logic_.MaySendBatch()) QueueBatch(now);
  if (outgoing_.empty()) return;
  stream_->Write(std::move(outgoing_.front()));
  outgoing_.pop_front();
  write_since_ = now;
}

void AgentSession::HandleRunEvents() {
  std::vector<RunEvent> events;
  {
    MutexLock lock(mutex_);
    events.swap(run_events_);
  }
  for (const RunEvent& event : events) {
    if (event.rendezvous.empty())
      logic_.OnRunEnded(event.run_id);
    else
      Apply(logic_.OnRendezvous(event.run_id, event.rendezvous));
  }
}

void AgentSession::AddRunEvent(RunEvent event) {
  {
    MutexLock lock(mutex_);
    run_events_.push_back(std::move(event));
  }
  bell_->Ring();
}

void AgentSession::OnResult(v1::Result result) {
  result.set_node_id(options_.node_id);
  {
    MutexLock lock(mutex_);
    pending_results_.push_back(Serialise(result));
    if (pending_results_.size() > kMaxPendingResults) {
      pending_results_.pop_front();
      ++lost_results_;
    }
  }
  AddRunEvent({result.run_id(), ""});
}

void AgentSession::SpoolPending() {
  for (;;) {
    std::string next;
    {
      MutexLock lock(mutex_);
      if (pending_results_.empty()) return;
      next = std::move(pending_results_.front());
      pending_results_.pop_front();
    }
    const absl::Status appended = parts_.spool->AppendOne(next).status();
    if (appended.ok()) continue;
    spdlog::error("cannot spool a result: {}", std::string(appended.message()));
    MutexLock lock(mutex_);
    if (!absl::IsUnavailable(appended)) {
      ++lost_results_;
      continue;
    }
    pending_results_.push_front(std::move(next));
    return;
  }
}

}  // namespace weft
