#include "agent/probes/nccl/roster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/probes/nccl/nccl_library.h"
#include "agent/probes/process/ticks.h"

namespace weft::nccl {
namespace {

// A participant beats every 200 ms; who was not heard for so long is stopped, cut off, or very busy.
constexpr int64_t kSilence = kSecond;
constexpr int64_t kLongestTick = 400 * kMillisecond;
// For what else there is to know when something went wrong.
constexpr int64_t kVerdictDelay = 300 * kMillisecond;
constexpr uint32_t kMaxGpus = 64;

std::string SecondsText(int64_t ticks) {
  return absl::StrCat(ticks / kSecond, ".", ticks % kSecond / (100 * kMillisecond), " s");
}

}  // namespace

Roster::Roster(Options options, int64_t now)
    : options_(std::move(options)), members_(options_.world_size), last_tick_(now) {
  step_deadline_ = std::min(now + options_.parameters.init_ticks, options_.verdict_by);
}

void Roster::Heard(uint32_t participant, int64_t now) { members_[participant].heard = now; }

std::string Roster::Unlike(const v1::NcclHello& hello) const {
  const v1::NcclHello& own = members_[0].hello;
  const std::string who = absl::StrCat("participant ", hello.participant());
  if (hello.parameters_digest() != own.parameters_digest())
    return absl::StrCat(who, " would measure something else than participant 0; they were given different ",
                        "probes, or have different versions of weft-probe-nccl");
  if (hello.nccl_version() != own.nccl_version())
    return absl::StrCat(who, " has NCCL ", VersionText(hello.nccl_version()), ", participant 0 has ",
                        VersionText(own.nccl_version()), "; all need the same");
  return "";
}

bool Roster::OnHello(const v1::NcclHello& hello, int64_t now) {
  const uint32_t participant = hello.participant();
  const bool fits = participant < options_.world_size && hello.world_size() == options_.world_size &&
                    hello.gpus() >= 1 && hello.gpus() <= kMaxGpus;
  if (!fits || stage_ != Stage::kGather || over_) return false;
  members_[participant].here = true;
  members_[participant].gone = false;
  members_[participant].hello = hello;
  Heard(participant, now);
  if (const std::string unlike = Unlike(hello); members_[0].here && !unlike.empty())
    Trouble(v1::OUTCOME_FAILED, unlike, now);
  if (std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.here; })) Begin(now);
  return true;
}

std::string Roster::RailsUnlike() const {
  if (!options_.parameters.rail_split) return "";
  if (options_.world_size < 2) return "a rail split needs two participants or more";
  for (uint32_t i = 1; i < options_.world_size; ++i)
    if (members_[i].hello.gpus() != members_[0].hello.gpus())
      return absl::StrCat("a rail split needs the same number of GPUs everywhere: participant 0 has ",
                          members_[0].hello.gpus(), ", participant ", i, " has ", members_[i].hello.gpus());
  return "";
}

void Roster::Begin(int64_t now) {
  if (trouble_) return;
  uint32_t total = 0;
  v1::NcclControl message;
  for (const Member& member : members_) {
    message.mutable_welcome()->add_gpus(member.hello.gpus());
    total += member.hello.gpus();
  }
  if (total < 2)
    return Trouble(v1::OUTCOME_REFUSED, "a collective needs two GPUs or more in all; there is one", now);
  if (const std::string unlike = RailsUnlike(); !unlike.empty())
    return Trouble(v1::OUTCOME_REFUSED, unlike, now);
  for (const std::string& id : options_.unique_ids) message.mutable_welcome()->add_unique_ids(id);
  messages_.push_back(std::move(message));
  stage_ = Stage::kSteps;
  step_iterations_.push_back(0);
  step_deadline_ = std::min(now + options_.parameters.init_ticks, options_.verdict_by);
}

void Roster::OnBeat(uint32_t participant, const v1::NcclBeat& beat, int64_t now) {
  Heard(participant, now);
  if (stage_ == Stage::kSteps && beat.step() == step_ && beat.entered()) members_[participant].entered = true;
}

void Roster::OnDone(uint32_t participant, const v1::NcclStepDone& done, int64_t now) {
  Heard(participant, now);
  if (over_ || stage_ != Stage::kSteps || done.step() != step_ || members_[participant].done) return;
  Member& member = members_[participant];
  const size_t times = step_ == 0 ? 0 : member.hello.gpus();
  if (static_cast<size_t>(done.rank_ns_size()) != times)
    return Trouble(v1::OUTCOME_FAILED, absl::StrCat("participant ", participant, " gave a malformed answer"),
                   now);
  member.done = member.entered = true;
  member.rank_ns.assign(done.rank_ns().begin(), done.rank_ns().end());
  if (std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.done; })) NextStep(now);
}

uint32_t Roster::IterationsFor(const Step& step) const {
  if (step.kind != StepKind::kTimed || step_times_.empty() || step_iterations_.back() == 0)
    return step.iterations;
  // Half of the time, since nothing promises that it goes on as fast as in the warm-up.
  const std::vector<uint64_t>& warm_up = step_times_.back();
  const uint64_t each = *std::max_element(warm_up.begin(), warm_up.end()) / step_iterations_.back();
  const auto fitting =
      static_cast<uint64_t>(options_.parameters.step_ticks / 2) / std::max<uint64_t>(each, 1);
  return static_cast<uint32_t>(std::clamp<uint64_t>(fitting, 1, step.iterations));
}

void Roster::NextStep(int64_t now) {
  std::vector<uint64_t> times;
  for (Member& member : members_) {
    times.insert(times.end(), member.rank_ns.begin(), member.rank_ns.end());
    member.done = member.entered = false;
  }
  step_times_.push_back(std::move(times));
  if (++step_ == options_.parameters.steps.size()) {
    if (!trouble_) Verdict(v1::OUTCOME_OK, "", {});
    return;
  }
  const Step& step = options_.parameters.steps[step_];
  v1::NcclControl message;
  message.mutable_go()->set_step(step_);
  message.mutable_go()->set_iterations(IterationsFor(step));
  step_iterations_.push_back(message.go().iterations());
  messages_.push_back(std::move(message));
  beat_.set_step(step_);
  step_deadline_ = std::min(now + options_.parameters.step_ticks, options_.verdict_by);
}

void Roster::OnFailure(uint32_t participant, const v1::NcclFailure& failure, int64_t now) {
  Heard(participant, now);
  Trouble(failure.outcome(), absl::StrCat("participant ", participant, ": ", failure.detail()), now);
}

void Roster::OnGone(uint32_t participant, int64_t now) {
  if (over_ || members_[participant].gone) return;
  if (stage_ == Stage::kGather) {
    // It may come again.
    members_[participant].here = false;
    return;
  }
  members_[participant].gone = true;
  Trouble(v1::OUTCOME_FAILED, "", now);
}

void Roster::Trouble(v1::Outcome outcome, std::string detail, int64_t now) {
  if (over_ || trouble_) return;
  trouble_.emplace();
  trouble_->set_outcome(outcome);
  trouble_->set_detail(std::move(detail));
  verdict_at_ = now + kVerdictDelay;
}

std::vector<uint32_t> Roster::Those(bool (*is)(const Member&)) const {
  std::vector<uint32_t> found;
  for (uint32_t i = 0; i < members_.size(); ++i)
    if (is(members_[i])) found.push_back(i);
  return found;
}

std::vector<uint32_t> Roster::Silent(int64_t now) const {
  std::vector<uint32_t> found;
  for (uint32_t i = 0; i < members_.size(); ++i)
    if (now - members_[i].heard > kSilence) found.push_back(i);
  return found;
}

uint32_t Roster::FirstRank(uint32_t participant) const {
  uint32_t first = 0;
  for (uint32_t i = 0; i < participant; ++i) first += members_[i].hello.gpus();
  return first;
}

std::string Roster::Describe(const std::vector<uint32_t>& participants) const {
  return absl::StrJoin(participants, ", ", [this](std::string* out, uint32_t i) {
    absl::StrAppend(out, "participant ", i);
    if (stage_ == Stage::kGather) return;
    const uint32_t first = FirstRank(i), gpus = members_[i].hello.gpus();
    absl::StrAppend(out, gpus == 1 ? absl::StrCat(" (rank ", first, ")")
                                   : absl::StrCat(" (ranks ", first, " to ", first + gpus - 1, ")"));
  });
}

std::string Roster::Where() const {
  return stage_ == Stage::kGather ? "rendezvous" : StepName(options_.parameters.steps[step_]);
}

void Roster::Verdict(v1::Outcome outcome, const std::string& detail, const std::vector<uint32_t>& missing) {
  v1::NcclControl message;
  message.mutable_verdict()->set_outcome(outcome);
  message.mutable_verdict()->set_detail(detail);
  for (const uint32_t i : missing) message.mutable_verdict()->add_missing_ranks(i);
  messages_.push_back(std::move(message));
  over_ = true;
}

void Roster::GiveVerdict() {
  const std::vector<uint32_t> gone = Those([](const Member& m) { return m.gone; });
  if (gone.empty()) return Verdict(trouble_->outcome(), trouble_->detail(), {});
  Verdict(v1::OUTCOME_FAILED,
          absl::StrCat("the probe of ", Describe(gone), " ended in ", Where(),
                       trouble_->detail().empty() ? "" : "; ", trouble_->detail()),
          gone);
}

void Roster::JudgeDeadline(int64_t now) {
  const std::vector<uint32_t> away = Those([](const Member& m) { return !m.here; });
  if (stage_ == Stage::kGather)
    return Verdict(v1::OUTCOME_PARTNER_MISSING, absl::StrCat(Describe(away), " never came"), away);
  const std::string prefix = absl::StrCat(Where(), " did not end in time: ");
  if (const std::vector<uint32_t> silent = Silent(now); !silent.empty())
    return Verdict(v1::OUTCOME_TIMED_OUT,
                   absl::StrCat(prefix, Describe(silent), " fell silent ",
                                SecondsText(now - members_[silent.front()].heard), " ago"),
                   silent);
  // In the making of communicators nobody has entered; otherwise the rest waits for who has not.
  const std::vector<uint32_t> outside = Those([](const Member& m) { return !m.entered; });
  if (!outside.empty() && outside.size() < members_.size())
    return Verdict(v1::OUTCOME_TIMED_OUT, absl::StrCat(prefix, Describe(outside), " never entered it"),
                   outside);
  const std::vector<uint32_t> unfinished = Those([](const Member& m) { return !m.done; });
  if (unfinished.size() < members_.size())
    return Verdict(v1::OUTCOME_TIMED_OUT, absl::StrCat(prefix, Describe(unfinished), " did not finish"),
                   unfinished);
  Verdict(v1::OUTCOME_TIMED_OUT, absl::StrCat(prefix, "all participants are alive and in it, none finished"),
          {});
}

void Roster::OnTick(int64_t now) {
  if (now - last_tick_ > kLongestTick)
    for (Member& member : members_) member.heard += now - last_tick_;
  last_tick_ = now;
  if (over_) return;
  if (trouble_ && now >= verdict_at_) return GiveVerdict();
  if (!trouble_ && now >= step_deadline_) JudgeDeadline(now);
}

std::vector<v1::NcclControl> Roster::TakeMessages() { return std::exchange(messages_, {}); }

}  // namespace weft::nccl
