#include "agent/probes/nccl/probe.h"

#include <poll.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/probes/nccl/link.h"
#include "agent/probes/nccl/log_capture.h"
#include "agent/probes/nccl/measurements.h"
#include "agent/probes/nccl/parameters.h"
#include "agent/probes/nccl/settings.h"
#include "agent/probes/nccl/worker.h"
#include "agent/probes/process/ticks.h"
#include "base/text.h"

namespace weft::nccl {
namespace {

constexpr int kTurnMilliseconds = 50;
// How much later than participant 0 the others judge themselves: its verdict knows more.
constexpr int64_t kJudgeSlack = 1500 * kMillisecond;
// For participant 0's verdict on a failure that it was told.
constexpr int64_t kVerdictPatience = 2 * kSecond;
constexpr int64_t kSilence = kSecond;
constexpr int64_t kClosePatience = 5 * kSecond;
constexpr int64_t kAbortPatience = 5 * kSecond;
constexpr int64_t kLastMoment = 100 * kMillisecond;
constexpr size_t kMaxLogBytes = 48 << 10;
constexpr int kMaxLimits = 16;

// Before the answer is due there must be time to abort.
int64_t VerdictBy(int64_t deadline) {
  const int64_t left = std::max<int64_t>(deadline - NowTicks(), 0);
  return deadline - std::clamp(left / 4, 300 * kMillisecond, kAbortPatience);
}

class Probe {
 public:
  Probe(const v1::ProbeRequest& request, const ProbeSinks& sinks)
      : request_(request),
        sinks_(sinks),
        parameters_(MakeParameters(request.spec().nccl())),
        deadline_(ProbeDeadline(request)),
        verdict_by_(VerdictBy(deadline_)) {}

  v1::Result Run();

 private:
  bool is_first() const { return request_.rank() == 0; }
  void Begin(const std::string& phase, int64_t allowed);
  void Turn();
  void OnWorker(WorkerEvent event);
  void OnOpened(WorkerEvent event);
  void OnDone(WorkerEvent event);
  void OnFailed(const absl::Status& status);
  void OnTold(const v1::NcclControl& message);
  void JudgeLate();
  void Decide(v1::Outcome outcome, const std::string& detail, const std::vector<uint32_t>& missing = {});
  void CloseInPeace();
  v1::Result MakeResult();
  void Describe(v1::NcclReport* report);

  const v1::ProbeRequest& request_;
  const ProbeSinks& sinks_;
  const Parameters parameters_;
  const int64_t deadline_;
  const int64_t verdict_by_;

  LogCapture log_;
  std::vector<v1::NcclSetting> settings_;
  GpuWorker* worker_ = nullptr;
  std::unique_ptr<Link> link_;
  Hub* hub_ = nullptr;      // link_ of participant 0
  Spoke* spoke_ = nullptr;  // link_ of the others
  Ranks ranks_;
  StepTimes times_;
  uint32_t step_ = 0;
  std::string phase_;
  int64_t judge_at_ = 0;
  std::optional<v1::NcclFailure> failure_;  // own, told to participant 0
  std::optional<v1::NcclVerdict> verdict_;
  bool closed_ = false;
  std::vector<std::string> limits_;
};

void Probe::Begin(const std::string& phase, int64_t allowed) {
  phase_ = phase;
  sinks_.on_phase(phase_.c_str());
  // While it has no hub, participant 0 judges itself too.
  const int64_t slack = link_ == nullptr ? 0 : kJudgeSlack;
  judge_at_ = std::min(NowTicks() + allowed + slack, verdict_by_ + (slack > 0 ? 200 * kMillisecond : 0));
}

void Probe::Decide(v1::Outcome outcome, const std::string& detail, const std::vector<uint32_t>& missing) {
  if (verdict_) return;
  verdict_.emplace();
  verdict_->set_outcome(outcome);
  verdict_->set_detail(detail);
  for (const uint32_t rank : missing) verdict_->add_missing_ranks(rank);
}

void Probe::OnOpened(WorkerEvent event) {
  const int64_t now = NowTicks();
  settings_ = std::move(event.settings);
  v1::NcclHello hello;
  hello.set_participant(request_.rank());
  hello.set_world_size(request_.world_size());
  hello.set_gpus(static_cast<uint32_t>(worker_->ranks()->gpus().size()));
  hello.set_nccl_version(worker_->ranks()->nccl().version());
  hello.set_parameters_digest(parameters_.digest);
  if (is_first()) {
    absl::StatusOr<std::unique_ptr<Hub>> hub =
        Hub::Open({.roster = {.world_size = request_.world_size(),
                              .parameters = parameters_,
                              .unique_ids = std::move(event.unique_ids),
                              .verdict_by = verdict_by_},
                   .own = hello},
                  now);
    if (!hub.ok()) return Decide(v1::OUTCOME_FAILED, std::string(hub.status().message()));
    hub_ = hub->get();
    link_ = *std::move(hub);
    if (!hub_->offer().empty()) sinks_.on_rendezvous(hub_->offer());
  } else {
    absl::StatusOr<std::unique_ptr<Spoke>> spoke =
        Spoke::Open(request_.rendezvous(), hello, std::min(now + parameters_.init_ticks, verdict_by_));
    if (!spoke.ok()) return Decide(v1::OUTCOME_FAILED, std::string(spoke.status().message()));
    spoke_ = spoke->get();
    link_ = *std::move(spoke);
  }
  Begin("rendezvous", parameters_.init_ticks);
}

void Probe::OnDone(WorkerEvent event) {
  v1::NcclControl message;
  message.mutable_done()->set_step(step_);
  for (const uint64_t ns : event.rank_ns) message.mutable_done()->add_rank_ns(ns);
  times_.own_ns.push_back(std::move(event.rank_ns));
  link_->Send(message, NowTicks());
}

void Probe::OnFailed(const absl::Status& status) {
  const std::string detail = EscapeControl(CutUtf8(ToValidUtf8(status.message()), 1024));
  if (link_ == nullptr) {
    const bool cannot = absl::IsNotFound(status) || absl::IsUnimplemented(status);
    return Decide(cannot ? v1::OUTCOME_REFUSED : v1::OUTCOME_FAILED, detail);
  }
  if (failure_) return;
  failure_.emplace();
  failure_->set_outcome(v1::OUTCOME_FAILED);
  failure_->set_detail(detail);
  v1::NcclControl message;
  *message.mutable_failure() = *failure_;
  link_->Send(message, NowTicks());
  judge_at_ = std::min(judge_at_, NowTicks() + kVerdictPatience);
}

void Probe::OnWorker(WorkerEvent event) {
  switch (event.kind) {
    case WorkerEvent::Kind::kOpened:
      return OnOpened(std::move(event));
    case WorkerEvent::Kind::kEntered:
      return link_->SayEntered(step_, NowTicks());
    case WorkerEvent::Kind::kDone:
      return OnDone(std::move(event));
    case WorkerEvent::Kind::kClosed:
      closed_ = true;
      return;
    case WorkerEvent::Kind::kFailed:
      return OnFailed(event.status);
  }
}

void Probe::OnTold(const v1::NcclControl& message) {
  if (message.has_verdict()) {
    if (!verdict_) verdict_ = message.verdict();
    return;
  }
  if (failure_) return;
  if (message.has_welcome()) {
    const v1::NcclWelcome& welcome = message.welcome();
    ranks_.gpus.assign(welcome.gpus().begin(), welcome.gpus().end());
    ranks_.participant = request_.rank();
    const size_t own = worker_->ranks()->gpus().size();
    const size_t ids = parameters_.rail_split ? own : 1;
    const bool sound = ranks_.gpus.size() == request_.world_size() &&
                       ranks_.gpus[ranks_.participant] == own &&
                       static_cast<size_t>(welcome.unique_ids_size()) == ids &&
                       std::all_of(welcome.unique_ids().begin(), welcome.unique_ids().end(),
                                   [](const std::string& id) { return id.size() == NCCL_UNIQUE_ID_BYTES; });
    if (!sound) return OnFailed(absl::InvalidArgumentError("participant 0 sent a malformed welcome"));
    times_.iterations.push_back(0);
    Begin(StepName(parameters_.steps[0]), parameters_.init_ticks);
    worker_->Connect(ranks_, {welcome.unique_ids().begin(), welcome.unique_ids().end()});
  }
  if (message.has_go()) {
    const v1::NcclGo& go = message.go();
    const bool sound = go.step() == times_.own_ns.size() && go.step() < parameters_.steps.size() &&
                       go.iterations() > 0 && go.iterations() <= parameters_.steps[go.step()].iterations;
    if (!sound) return OnFailed(absl::InvalidArgumentError("participant 0 sent a malformed go"));
    step_ = go.step();
    times_.iterations.push_back(go.iterations());
    Begin(StepName(parameters_.steps[step_]), parameters_.step_ticks);
    worker_->Run(parameters_.steps[step_], go.iterations());
  }
}

void Probe::JudgeLate() {
  if (failure_) return Decide(failure_->outcome(), failure_->detail());
  if (link_ == nullptr)
    return Decide(v1::OUTCOME_TIMED_OUT, "the GPU's driver or NCCL does not come up in time",
                  {request_.rank()});
  const int64_t silence = spoke_ != nullptr ? NowTicks() - spoke_->last_heard() : 0;
  if (silence > kSilence)
    return Decide(
        v1::OUTCOME_TIMED_OUT,
        absl::StrCat(phase_, " did not end in time: participant 0 fell silent ", silence / kSecond, " s ago"),
        {0});
  Decide(v1::OUTCOME_TIMED_OUT, absl::StrCat(phase_, " did not end in time"));
}

void Probe::Turn() {
  std::vector<pollfd> fds = {{worker_->event_fd(), POLLIN, 0}, {log_.fd(), POLLIN, 0}};
  if (link_ != nullptr)
    for (const pollfd& fd : link_->PollFds()) fds.push_back(fd);
  poll(fds.data(), fds.size(), kTurnMilliseconds);
  log_.Drain();
  for (WorkerEvent& event : worker_->TakeEvents()) OnWorker(std::move(event));
  if (link_ == nullptr) return;
  for (const v1::NcclControl& message : link_->Turn(NowTicks())) OnTold(message);
}

void Probe::CloseInPeace() {
  Begin("close", kClosePatience);
  const int64_t give_up = std::min(NowTicks() + kClosePatience, deadline_ - kSecond / 2);
  worker_->Close();
  while (!closed_ && !failure_ && NowTicks() < give_up) Turn();
  if (failure_) {
    limits_.push_back(absl::StrCat("the communicators did not close: ", failure_->detail()));
  } else if (!closed_) {
    limits_.push_back("the communicators did not close in time and were aborted");
  }
}

v1::Result Probe::Run() {
  std::vector<std::string> own_settings = SetOwnSettings(parameters_.require_network);
  if (absl::Status s = log_.Start(); !s.ok()) limits_.emplace_back(s.message());
  Begin("open", parameters_.init_ticks);
  worker_ = new GpuWorker(parameters_);
  worker_->Open(is_first(), std::move(own_settings));
  while (!verdict_) {
    Turn();
    if (NowTicks() >= judge_at_) JudgeLate();
  }
  const std::string last_phase = phase_;
  if (verdict_->outcome() == v1::OUTCOME_OK) CloseInPeace();
  phase_ = last_phase;
  const int64_t patience = std::clamp<int64_t>(deadline_ - NowTicks() - kLastMoment, 0, kAbortPatience);
  const bool finished = worker_->Finish(patience);
  log_.Drain();
  v1::Result result = MakeResult();
  if (!finished && result.outcome() != v1::OUTCOME_OK)
    absl::StrAppend(result.mutable_detail(), "; NCCL or the driver hung in the abort, the process was ended");
  return result;
}

void Probe::Describe(v1::NcclReport* report) {
  for (const v1::NcclSetting& setting : settings_) *report->add_settings() = setting;
  const LogCapture::Excerpt log = log_.Cut(kMaxLogBytes);
  report->set_log(log.text);
  report->set_log_bytes_left_out(log.left_out);
  const DeviceRanks* const device_ranks = worker_->ranks();
  if (device_ranks == nullptr) return;
  report->set_version(VersionText(device_ranks->nccl().version()));
  report->set_library_path(CutUtf8(ToValidUtf8(device_ranks->nccl().path()), 512));
  report->set_cuda_version(device_ranks->cuda().Version());
  report->set_checked_bytes(device_ranks->checked_bytes());
  report->set_received_bytes(device_ranks->received_bytes());
  if (!ranks_.gpus.empty()) report->set_total_ranks(ranks_.total());
  uint32_t number = ranks_.gpus.empty() ? 0 : ranks_.own_first();
  for (const Gpu& gpu : device_ranks->gpus()) {
    v1::NcclRank* const rank = report->add_own_ranks();
    rank->set_rank(number++);
    rank->set_pci_address(gpu.pci_address);
    rank->set_model(ToValidUtf8(gpu.model));
  }
  for (const std::string& limit : device_ranks->nccl().Limits()) limits_.push_back(limit);
  for (const std::string& limit : limits_)
    if (report->limits_size() < kMaxLimits) report->add_limits(limit);
}

v1::Result Probe::MakeResult() {
  v1::Result result;
  result.set_outcome(verdict_->outcome());
  result.set_detail(EscapeControl(verdict_->detail()));
  result.set_phase(phase_);
  *result.mutable_missing_ranks() = verdict_->missing_ranks();
  Describe(result.mutable_nccl());
  const v1::NcclReport& report = result.nccl();
  if (!report.version().empty())
    result.set_stack_fingerprint(EscapeControl(absl::StrCat(
        "weft-nccl/", kFormulaVersion, " nccl/", report.version(), " cuda/", report.cuda_version(),
        " driver/", DriverVersion(), " ", report.library_path(), " ", FingerprintOf(settings_))));
  if (result.outcome() != v1::OUTCOME_OK) return result;
  if (hub_ != nullptr) times_.all_ns = hub_->roster().step_times();
  for (v1::Measurement& m : MakeMeasurements(parameters_, ranks_, times_))
    *result.add_measurements() = std::move(m);
  return result;
}

}  // namespace

v1::Result RunProbe(const v1::ProbeRequest& request, const ProbeSinks& sinks) {
  Probe probe(request, sinks);
  return probe.Run();
}

}  // namespace weft::nccl
