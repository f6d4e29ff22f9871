// What participant 0 knows of all participants, itself included, and what it tells them. Pure: messages and
// times in, messages out; no socket, no thread, no clock. One thread.
//
// Steps go in lock-step: when everybody has done one, all are told to go on with the next. When something
// goes wrong - a participant fails, ends, or does not finish a step in time - a verdict follows that names
// whoever never arrived. The word of a failure often comes before its cause: a process that dies makes NCCL
// fail elsewhere first. So a verdict waits a moment for what else there is to know.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/probes/nccl/parameters.h"
#include "weft/v1/nccl.pb.h"

namespace weft::nccl {

// All times in ticks.
class Roster {
 public:
  struct Options {
    uint32_t world_size = 1;
    Parameters parameters;
    std::vector<std::string> unique_ids;
    int64_t verdict_by = 0;  // no step may last beyond this
  };
  Roster(Options options, int64_t now);

  // A participant is here. False when it cannot be of this run (number out of range, another world size); one
  // that would do something else, or has another NCCL, brings a verdict.
  bool OnHello(const v1::NcclHello& hello, int64_t now);
  void OnBeat(uint32_t participant, const v1::NcclBeat& beat, int64_t now);
  void OnDone(uint32_t participant, const v1::NcclStepDone& done, int64_t now);
  void OnFailure(uint32_t participant, const v1::NcclFailure& failure, int64_t now);
  // Its connection ended.
  void OnGone(uint32_t participant, int64_t now);
  // Time has passed. Call it at least every 200 ms: longer gaps count as this process's own sleep, not as the
  // others' silence.
  void OnTick(int64_t now);

  // What to tell everybody, participant 0 too, in order; each is given once.
  std::vector<v1::NcclControl> TakeMessages();
  // What to beat with.
  const v1::NcclBeat& beat() const { return beat_; }
  bool over() const { return over_; }

  // Nanoseconds that a step took, by rank over all participants; empty before everybody has done it.
  const std::vector<std::vector<uint64_t>>& step_times() const { return step_times_; }
  // Iterations that each step was told to do.
  const std::vector<uint32_t>& step_iterations() const { return step_iterations_; }

 private:
  struct Member {
    bool here = false;
    bool gone = false;
    v1::NcclHello hello;
    int64_t heard = 0;
    bool entered = false;  // the step under way
    bool done = false;     // likewise
    std::vector<uint64_t> rank_ns;
  };
  enum class Stage { kGather, kSteps };

  void Heard(uint32_t participant, int64_t now);
  void Begin(int64_t now);
  void NextStep(int64_t now);
  uint32_t IterationsFor(const Step& step) const;
  std::string Unlike(const v1::NcclHello& hello) const;
  std::string RailsUnlike() const;
  void Trouble(v1::Outcome outcome, std::string detail, int64_t now);
  void GiveVerdict();
  void Verdict(v1::Outcome outcome, const std::string& detail, const std::vector<uint32_t>& missing);
  void JudgeDeadline(int64_t now);
  std::vector<uint32_t> Silent(int64_t now) const;
  std::vector<uint32_t> Those(bool (*is)(const Member&)) const;
  std::string Describe(const std::vector<uint32_t>& participants) const;
  std::string Where() const;
  uint32_t FirstRank(uint32_t participant) const;

  const Options options_;
  std::vector<Member> members_;
  Stage stage_ = Stage::kGather;
  uint32_t step_ = 0;
  int64_t step_deadline_ = 0;
  int64_t last_tick_ = 0;
  v1::NcclBeat beat_;
  bool over_ = false;
  std::optional<v1::NcclFailure> trouble_;
  int64_t verdict_at_ = 0;
  std::vector<v1::NcclControl> messages_;
  std::vector<std::vector<uint64_t>> step_times_;
  std::vector<uint32_t> step_iterations_;
};

}  // namespace weft::nccl
