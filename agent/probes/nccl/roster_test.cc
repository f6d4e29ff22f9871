#include "agent/probes/nccl/roster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/probes/process/ticks.h"

namespace weft::nccl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kStart = 1000 * kSecond;

// Three participants with 2, 1 and 4 GPUs.
class RosterTest : public ::testing::Test {
 protected:
  RosterTest() {
    v1::NcclProbe probe;
    probe.add_message_size_bytes(1024);
    probe.set_iterations(100);
    probe.mutable_size_deadline()->set_seconds(10);
    probe.mutable_init_deadline()->set_seconds(20);
    options_ = {.world_size = 3,
                .parameters = MakeParameters(probe),
                .unique_ids = {"id"},
                .verdict_by = kStart + 1000 * kSecond};
    Make();
  }
  void Make() {
    roster_.emplace(options_, kStart);
    now_ = kStart;
  }
  static constexpr uint32_t kGpus[] = {2, 1, 4};
  v1::NcclHello Hello(uint32_t participant) const {
    v1::NcclHello hello;
    hello.set_participant(participant);
    hello.set_world_size(3);
    hello.set_gpus(kGpus[participant]);
    hello.set_nccl_version(22803);
    hello.set_parameters_digest(7);
    return hello;
  }
  void Gather() {
    for (uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(roster_->OnHello(Hello(i), now_));
  }
  void Done(uint32_t participant, uint32_t step, uint64_t ns = 1000) {
    v1::NcclStepDone done;
    done.set_step(step);
    for (uint32_t i = 0; step > 0 && i < kGpus[participant]; ++i) done.add_rank_ns(ns + i);
    roster_->OnDone(participant, done, now_);
  }
  void AllDone(uint32_t step, uint64_t ns = 1000) {
    for (uint32_t i = 0; i < 3; ++i) Done(i, step, ns);
  }
  void Beat(uint32_t participant, uint32_t step, bool entered) {
    v1::NcclBeat beat;
    beat.set_step(step);
    beat.set_entered(entered);
    roster_->OnBeat(participant, beat, now_);
  }
  // Time passes; those in `alive` beat.
  void Pass(int64_t ticks, const std::vector<uint32_t>& alive, uint32_t step = 0, bool entered = true) {
    for (const int64_t end = now_ + ticks; now_ < end;) {
      now_ += 200 * kMillisecond;
      for (const uint32_t i : alive) Beat(i, step, entered);
      roster_->OnTick(now_);
    }
  }
  std::vector<v1::NcclControl> Take() { return roster_->TakeMessages(); }
  v1::NcclVerdict Verdict() {
    const std::vector<v1::NcclControl> messages = Take();
    return !messages.empty() ? messages.back().verdict() : v1::NcclVerdict();
  }

  Roster::Options options_;
  std::optional<Roster> roster_;
  int64_t now_ = kStart;
};

TEST_F(RosterTest, WelcomeComesOnceEverybodyIsHere) {
  EXPECT_TRUE(roster_->OnHello(Hello(0), now_));
  EXPECT_TRUE(roster_->OnHello(Hello(2), now_));
  EXPECT_THAT(Take(), IsEmpty());
  EXPECT_TRUE(roster_->OnHello(Hello(1), now_));
  const auto messages = Take();
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_THAT(messages[0].welcome().gpus(), ElementsAre(2U, 1U, 4U));
  EXPECT_THAT(messages[0].welcome().unique_ids(), ElementsAre("id"));
}

TEST_F(RosterTest, StepsGoOnWhenTheLastIsDoneAndEndInAnOk) {
  Gather();
  Take();
  for (uint32_t step = 0; step < 4; ++step) {
    Done(0, step);
    Done(2, step);
    EXPECT_THAT(Take(), IsEmpty());
    Done(1, step);
    const auto messages = Take();
    ASSERT_EQ(messages.size(), 1U);
    if (step < 3) {
      EXPECT_EQ(messages[0].go().step(), step + 1);
    }
    if (step == 3) {
      EXPECT_EQ(messages[0].verdict().outcome(), v1::OUTCOME_OK);
    }
  }
  EXPECT_TRUE(roster_->over());
  EXPECT_THAT(roster_->step_times()[2], ElementsAre(1000, 1001, 1000, 1000, 1001, 1002, 1003));
  EXPECT_THAT(roster_->step_iterations(), ElementsAre(0, 5, 100, 1));
}

TEST_F(RosterTest, TimedPartIsCutToHalfOfItsDeadlineByTheSlowestRanksWarmUp) {
  Gather();
  AllDone(0);
  for (uint32_t i = 0; i < 3; ++i) Done(i, 1, i == 1 ? 5 * kSecond : 5000);  // five collectives
  const auto messages = Take();
  EXPECT_EQ(messages.back().go().iterations(), 5U);
}

TEST_F(RosterTest, HelloOfAnotherRunIsNoneOfOurs) {
  v1::NcclHello hello = Hello(1);
  hello.set_world_size(4);
  EXPECT_FALSE(roster_->OnHello(hello, now_));
  hello = Hello(1);
  hello.set_participant(3);
  EXPECT_FALSE(roster_->OnHello(hello, now_));
  for (const uint32_t gpus : {0U, 65U}) {
    hello = Hello(1);
    hello.set_gpus(gpus);
    EXPECT_FALSE(roster_->OnHello(hello, now_));
  }
  Gather();
  EXPECT_FALSE(roster_->OnHello(Hello(1), now_)) << "too late";
}

TEST_F(RosterTest, WhoWouldDoSomethingElseIsNamed) {
  roster_->OnHello(Hello(0), now_);
  v1::NcclHello hello = Hello(2);
  hello.set_parameters_digest(8);
  roster_->OnHello(hello, now_);
  Pass(kSecond, {0, 2});
  const v1::NcclVerdict verdict = Verdict();
  EXPECT_EQ(verdict.outcome(), v1::OUTCOME_FAILED);
  EXPECT_THAT(verdict.detail(), AllOf(HasSubstr("participant 2"), HasSubstr("something else")));
}

TEST_F(RosterTest, WhoNeverCameIsMissing) {
  roster_->OnHello(Hello(0), now_);
  roster_->OnHello(Hello(2), now_);
  Pass(19 * kSecond, {0, 2});
  EXPECT_THAT(Take(), IsEmpty());
  Pass(2 * kSecond, {0, 2});
  const v1::NcclVerdict verdict = Verdict();
  EXPECT_EQ(verdict.outcome(), v1::OUTCOME_PARTNER_MISSING);
  EXPECT_THAT(verdict.missing_ranks(), ElementsAre(1U));
}

TEST_F(RosterTest, WhoLeftBeforeTheStartMayComeAgain) {
  roster_->OnHello(Hello(0), now_);
  roster_->OnHello(Hello(1), now_);
  roster_->OnGone(1, now_);
  roster_->OnHello(Hello(2), now_);
  EXPECT_THAT(Take(), IsEmpty());
  roster_->OnHello(Hello(1), now_);
  EXPECT_TRUE(Take().back().has_welcome());
}

TEST_F(RosterTest, SilentParticipantIsMissingWithItsRanks) {
  Gather();
  AllDone(0);
  Take();
  Pass(11 * kSecond, {0, 1}, 1);
  const v1::NcclVerdict verdict = Verdict();
  EXPECT_EQ(verdict.outcome(), v1::OUTCOME_TIMED_OUT);
  EXPECT_THAT(verdict.missing_ranks(), ElementsAre(2U));
  EXPECT_THAT(verdict.detail(),
              AllOf(HasSubstr("warm_up 1024 B"), HasSubstr("participant 2 (ranks 3 to 6)")));
}

TEST_F(RosterTest, WhoIsAliveButNeverEnteredIsMissing) {
  Gather();
  AllDone(0);
  Take();
  for (int i = 0; i < 52; ++i) {
    Pass(200 * kMillisecond, {0, 2}, 1);
    Beat(1, 1, false);
  }
  const v1::NcclVerdict verdict = Verdict();
  EXPECT_EQ(verdict.outcome(), v1::OUTCOME_TIMED_OUT);
  EXPECT_THAT(verdict.missing_ranks(), ElementsAre(1U));
  EXPECT_THAT(verdict.detail(), HasSubstr("never entered"));
}

TEST_F(RosterTest, WhoDidNotFinishWhereOthersDidIsMissing) {
  Gather();
  AllDone(0);
  Take();
  for (uint32_t i = 0; i < 3; ++i) Beat(i, 1, true);
  Done(0, 1);
  Done(2, 1);
  Pass(11 * kSecond, {0, 1, 2}, 1);
  EXPECT_THAT(Verdict().missing_ranks(), ElementsAre(1U));
}

TEST_F(RosterTest, WhenAllHangNobodyIsMissing) {
  Gather();
  AllDone(0);
  Take();
  Pass(11 * kSecond, {0, 1, 2}, 1);
  const v1::NcclVerdict verdict = Verdict();
  EXPECT_EQ(verdict.outcome(), v1::OUTCOME_TIMED_OUT);
  EXPECT_THAT(verdict.missing_ranks(), IsEmpty());
}

// A process that dies makes NCCL fail elsewhere, and that word may come first.
TEST_F(RosterTest, EndOfAProcessExplainsAFailureThatCameBefore) {
  Gather();
  AllDone(0);
  Take();
  v1::NcclFailure failure;
  failure.set_outcome(v1::OUTCOME_FAILED);
  failure.set_detail("remote process exited");
  roster_->OnFailure(0, failure, now_);
  now_ += 100 * kMillisecond;
  roster_->OnTick(now_);
  EXPECT_THAT(Take(), IsEmpty());
  roster_->OnGone(1, now_);
  Pass(kSecond, {0, 2}, 1);
  const v1::NcclVerdict verdict = Verdict();
  EXPECT_EQ(verdict.outcome(), v1::OUTCOME_FAILED);
  EXPECT_THAT(verdict.missing_ranks(), ElementsAre(1U));
  EXPECT_THAT(verdict.detail(),
              AllOf(HasSubstr("participant 1 (rank 2) ended"), HasSubstr("remote process exited")));
}

TEST_F(RosterTest, OwnSleepIsNotTheOthersSilence) {
  Gather();
  AllDone(0);
  Take();
  Pass(kSecond, {0, 1, 2}, 1);
  now_ += 30 * kSecond;  // this process was stopped
  roster_->OnTick(now_);
  const v1::NcclVerdict verdict = Verdict();
  EXPECT_EQ(verdict.outcome(), v1::OUTCOME_TIMED_OUT);
  EXPECT_THAT(verdict.missing_ranks(), IsEmpty());
}

TEST_F(RosterTest, NoStepLastsBeyondTheRunsEnd) {
  options_.verdict_by = kStart + 3 * kSecond;
  Make();
  Gather();
  AllDone(0);
  Take();
  Pass(4 * kSecond, {0, 1, 2}, 1);
  EXPECT_EQ(Verdict().outcome(), v1::OUTCOME_TIMED_OUT);
}

TEST_F(RosterTest, OldOrRepeatedAnswersChangeNothing) {
  Gather();
  AllDone(0);
  Take();
  Done(1, 0);
  Done(1, 1);
  Done(1, 1, 99);
  Done(0, 1);
  EXPECT_THAT(Take(), IsEmpty());
  Done(2, 1);
  EXPECT_THAT(roster_->step_times()[1], ElementsAre(1000, 1001, 1000, 1000, 1001, 1002, 1003));
}

TEST_F(RosterTest, AnswerWithTheWrongNumberOfRanksIsAFailure) {
  Gather();
  AllDone(0);
  Take();
  v1::NcclStepDone done;
  done.set_step(1);
  roster_->OnDone(1, done, now_);
  Pass(kSecond, {0, 1, 2}, 1);
  EXPECT_THAT(Verdict().detail(), HasSubstr("participant 1 gave a malformed answer"));
}

}  // namespace
}  // namespace weft::nccl
