#include "server/plan/run_tracker.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rapidcheck.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

const absl::Time kStart = absl::FromUnixSeconds(1'800'000'000);
constexpr absl::Duration kDeadline = absl::Seconds(60);

weft::Run PairRun(const std::string& id, const std::string& a, const std::string& b,
                  absl::Time now = kStart) {
  weft::Run run;
  run.id = id;
  run.participants = {a, b};
  run.plan_time = now;
  return run;
}

template <typename Body>
std::vector<std::string> NodesTold(const TrackerOutput& output) {
  std::vector<std::string> nodes;
  for (const Command& command : output.commands) {
    if (std::holds_alternative<Body>(command.body)) nodes.push_back(command.node_id);
  }
  return nodes;
}

class RunTrackerTest : public ::testing::Test {
 protected:
  TrackerOutput Accept(const std::string& node) {
    return tracker_.OnLeaseReply(node, "r", true, Outcome::kOk, "", kStart);
  }
  void StartBoth() {
    tracker_.Begin(PairRun("r", "a", "b"), kDeadline, kStart);
    Accept("a");
    Accept("b");
    tracker_.OnRendezvous("a", "r", "address", kStart);
  }
  RunTracker tracker_{RunTrackerOptions{}};
};

using Strings = std::vector<std::string>;

TEST_F(RunTrackerTest, LeasesAllThenStartsRankZeroThenTheOthersWithItsRendezvousAndFinishesOk) {
  EXPECT_EQ(NodesTold<LeaseCommand>(tracker_.Begin(PairRun("r", "a", "b"), kDeadline, kStart)),
            (Strings{"a", "b"}));
  EXPECT_TRUE(Accept("b").commands.empty());
  const TrackerOutput first = Accept("a");
  EXPECT_EQ(NodesTold<StartCommand>(first), Strings{"a"});
  EXPECT_EQ(std::get<StartCommand>(first.commands[0].body).rendezvous, "");
  const TrackerOutput second = tracker_.OnRendezvous("a", "r", "address", kStart);
  EXPECT_EQ(NodesTold<StartCommand>(second), Strings{"b"});
  EXPECT_EQ(std::get<StartCommand>(second.commands[0].body).rendezvous, "address");
  EXPECT_TRUE(tracker_.OnResult("a", "r", Outcome::kOk, "", kStart).finished.empty());
  const TrackerOutput last = tracker_.OnResult("b", "r", Outcome::kOk, "", kStart + absl::Seconds(3));
  ASSERT_EQ(last.finished.size(), 1u);
  EXPECT_EQ(last.finished[0].state, RunState::kOk);
  EXPECT_EQ(last.finished[0].end_time, kStart + absl::Seconds(3));
  EXPECT_TRUE(last.commands.empty());
  EXPECT_EQ(tracker_.active_runs(), 0u);
}

TEST_F(RunTrackerTest, ADeclineSkipsTheRunAndCancelsTheOthers) {
  tracker_.Begin(PairRun("r", "a", "b"), kDeadline, kStart);
  Accept("a");
  const TrackerOutput output =
      tracker_.OnLeaseReply("b", "r", false, Outcome::kSkippedBusy, "job 17 holds the GPUs", kStart);
  ASSERT_EQ(output.finished.size(), 1u);
  EXPECT_EQ(output.finished[0].state, RunState::kSkipped);
  EXPECT_THAT(output.finished[0].detail, HasSubstr("b declined: busy (job 17 holds the GPUs)"));
  ASSERT_EQ(output.declined.size(), 1u);
  EXPECT_EQ(output.declined[0].node_id, "b");
  EXPECT_EQ(output.declined[0].outcome, Outcome::kSkippedBusy);
  EXPECT_EQ(NodesTold<CancelCommand>(output), Strings{"a"});
}

TEST_F(RunTrackerTest, AYieldEndsTheRunAtOnceAndIsNobodysFailure) {
  tracker_.Begin(PairRun("r", "a", "b"), kDeadline, kStart);
  Accept("a");
  Accept("b");
  tracker_.OnRendezvous("a", "r", "here", kStart);
  const TrackerOutput output = tracker_.OnResult("b", "r", Outcome::kYielded, "process 7 came", kStart);
  ASSERT_EQ(output.finished.size(), 1u);
  EXPECT_EQ(output.finished[0].state, RunState::kSkipped);
  EXPECT_THAT(output.finished[0].detail, HasSubstr("b reports: yielded to a job (process 7 came)"));
  EXPECT_EQ(NodesTold<CancelCommand>(output), Strings{"a"});
  EXPECT_TRUE(tracker_.OnResult("a", "r", Outcome::kFailed, "", kStart).finished.empty());
}

TEST_F(RunTrackerTest, ARefusalFailsTheRun) {
  tracker_.Begin(PairRun("r", "a", "b"), kDeadline, kStart);
  const TrackerOutput output =
      tracker_.OnLeaseReply("b", "r", false, Outcome::kRefused, "unknown probe kind", kStart);
  EXPECT_EQ(output.finished.at(0).state, RunState::kFailed);
}

TEST_F(RunTrackerTest, AnUnansweredLeaseTimesOutNamingWhoAndThePhase) {
  tracker_.Begin(PairRun("r", "a", "b"), kDeadline, kStart);
  Accept("a");
  EXPECT_EQ(tracker_.NextDeadline(), kStart + absl::Seconds(5));
  EXPECT_TRUE(tracker_.Tick(kStart + absl::Seconds(4)).finished.empty());
  const TrackerOutput output = tracker_.Tick(kStart + absl::Seconds(5));
  ASSERT_EQ(output.finished.size(), 1u);
  EXPECT_EQ(output.finished[0].state, RunState::kTimedOut);
  EXPECT_THAT(output.finished[0].detail, HasSubstr("no answer to the lease from b"));
  EXPECT_EQ(NodesTold<CancelCommand>(output), (Strings{"a", "b"}));
  EXPECT_EQ(tracker_.NextDeadline(), absl::InfiniteFuture());
}

TEST_F(RunTrackerTest, AMissingRendezvousTimesOutNamingRankZero) {
  tracker_.Begin(PairRun("r", "a", "b"), kDeadline, kStart);
  Accept("a");
  Accept("b");
  const TrackerOutput output = tracker_.Tick(kStart + absl::Seconds(20));
  EXPECT_THAT(output.finished.at(0).detail, HasSubstr("no rendezvous from a"));
}

TEST_F(RunTrackerTest, AMissingResultTimesOutAfterDeadlineAndGraceNamingWho) {
  StartBoth();
  tracker_.OnResult("a", "r", Outcome::kPartnerMissing, "", kStart);
  EXPECT_TRUE(tracker_.Tick(kStart + kDeadline + absl::Seconds(9)).finished.empty());
  const TrackerOutput output = tracker_.Tick(kStart + kDeadline + absl::Seconds(10));
  EXPECT_EQ(output.finished.at(0).state, RunState::kTimedOut);
  EXPECT_THAT(output.finished[0].detail, HasSubstr("no result from b"));
  EXPECT_EQ(NodesTold<CancelCommand>(output), Strings{"b"});
}

TEST_F(RunTrackerTest, RankZeroFailingBeforeItsRendezvousEndsTheRunAndFreesTheOthers) {
  tracker_.Begin(PairRun("r", "a", "b"), kDeadline, kStart);
  Accept("a");
  Accept("b");
  const TrackerOutput output = tracker_.OnResult("a", "r", Outcome::kFailed, "", kStart);
  EXPECT_EQ(output.finished.at(0).state, RunState::kFailed);
  EXPECT_EQ(NodesTold<CancelCommand>(output), Strings{"b"});
}

TEST_F(RunTrackerTest, TheWorstOutcomeSpeaksForTheRun) {
  StartBoth();
  tracker_.OnResult("a", "r", Outcome::kTimedOut, "", kStart);
  const TrackerOutput output = tracker_.OnResult("b", "r", Outcome::kFailed, "no such domain eth9", kStart);
  EXPECT_EQ(output.finished.at(0).state, RunState::kFailed);
  EXPECT_EQ(output.finished[0].detail, "a reports: timed out; b reports: failed (no such domain eth9)");
}

TEST_F(RunTrackerTest, AnAgentLostBeforeTheStartGivesTheRunUp) {
  tracker_.Begin(PairRun("r", "a", "b"), kDeadline, kStart);
  Accept("a");
  const TrackerOutput output = tracker_.OnAgentGone("b", kStart);
  EXPECT_EQ(output.finished.at(0).state, RunState::kTimedOut);
  EXPECT_THAT(output.finished[0].detail, HasSubstr("agent of b went away before the start"));
  EXPECT_EQ(NodesTold<CancelCommand>(output), Strings{"a"});
}

TEST_F(RunTrackerTest, AnAgentLostWhileRunningIsWaitedForUntilTheDeadline) {
  StartBoth();
  EXPECT_TRUE(tracker_.OnAgentGone("b", kStart).finished.empty());
  tracker_.OnResult("a", "r", Outcome::kOk, "", kStart);
  EXPECT_EQ(tracker_.OnResult("b", "r", Outcome::kOk, "", kStart + absl::Seconds(50)).finished.at(0).state,
            RunState::kOk);
}

TEST_F(RunTrackerTest, AResumedRunOnlyWaitsForResults) {
  EXPECT_TRUE(tracker_.Resume(PairRun("r", "a", "b"), kDeadline, kStart).commands.empty());
  EXPECT_EQ(tracker_.BusyNodes().size(), 2u);
  EXPECT_TRUE(Accept("a").commands.empty());
  EXPECT_TRUE(tracker_.OnRendezvous("a", "r", "x", kStart).commands.empty());
  tracker_.OnResult("a", "r", Outcome::kOk, "", kStart);
  EXPECT_EQ(tracker_.OnResult("b", "r", Outcome::kOk, "", kStart).finished.at(0).state, RunState::kOk);
}

TEST_F(RunTrackerTest, AResumedRunOfLongAgoStillWaitsForTheGrace) {
  tracker_.Resume(PairRun("r", "a", "b", kStart - absl::Hours(5)), kDeadline, kStart);
  EXPECT_TRUE(tracker_.Tick(kStart + absl::Seconds(9)).finished.empty());
  EXPECT_EQ(tracker_.Tick(kStart + absl::Seconds(10)).finished.size(), 1u);
}

TEST_F(RunTrackerTest, GarbageIsIgnored) {
  StartBoth();
  EXPECT_TRUE(tracker_.OnResult("c", "r", Outcome::kFailed, "", kStart).finished.empty());
  EXPECT_TRUE(tracker_.OnResult("a", "unknown", Outcome::kFailed, "", kStart).finished.empty());
  EXPECT_TRUE(tracker_.OnRendezvous("b", "r", "x", kStart).commands.empty());
  EXPECT_TRUE(tracker_.OnRendezvous("a", "r", "again", kStart).commands.empty());
  EXPECT_TRUE(Accept("a").commands.empty());
  EXPECT_TRUE(tracker_.Begin(PairRun("r", "a", "b"), kDeadline, kStart).commands.empty());
  tracker_.OnResult("a", "r", Outcome::kOk, "", kStart);
  EXPECT_TRUE(tracker_.OnResult("a", "r", Outcome::kFailed, "", kStart).finished.empty());
  EXPECT_EQ(tracker_.OnResult("b", "r", Outcome::kOk, "", kStart).finished.at(0).state, RunState::kOk);
}

TEST_F(RunTrackerTest, DetailsUseTheDisplayNameWhereThereIsOne) {
  RunTrackerOptions options;
  options.display_name = [](absl::string_view id) { return absl::StrCat("host-", id); };
  RunTracker tracker(options);
  tracker.Begin(PairRun("r", "a", "b"), kDeadline, kStart);
  EXPECT_THAT(tracker.Tick(kStart + absl::Minutes(1)).finished.at(0).detail, HasSubstr("host-a, host-b"));
}

// What any agent may do to the tracker, in any order.
TrackerOutput RandomEvent(RunTracker& tracker, int runs, absl::Time now) {
  const std::string node = absl::StrCat("n", *rc::gen::inRange(0, 2 * runs + 1));
  const std::string run = absl::StrCat("r", *rc::gen::inRange(0, runs + 1));
  const auto outcome = static_cast<Outcome>(*rc::gen::inRange(1, 8));
  switch (*rc::gen::inRange(0, 8)) {
    case 0:
      return tracker.OnAgentGone(node, now);
    case 1:
      return tracker.Tick(now);
    case 2:
      return tracker.OnLeaseReply(node, run, false, outcome, "", now);
    case 3:
    case 4:
      return tracker.OnLeaseReply(node, run, true, outcome, "", now);
    case 5:
      return tracker.OnRendezvous(node, run, "x", now);
    default:
      return tracker.OnResult(node, run, outcome, "", now);
  }
}

TEST(RunTrackerProperty, EachRunFinishesExactlyOnceInTimeAndNoNodeStaysBusyWhateverTheOrderOfEvents) {
  EXPECT_TRUE(rc::check([] {
    const RunTrackerOptions options;
    const auto runs = *rc::gen::inRange(1, 4);
    RunTracker tracker(options);
    absl::Time now = kStart;
    for (int i = 0; i < runs; ++i) {
      const weft::Run run =
          PairRun(absl::StrCat("r", i), absl::StrCat("n", 2 * i), absl::StrCat("n", 2 * i + 1));
      *rc::gen::arbitrary<bool>() ? tracker.Begin(run, kDeadline, now) : tracker.Resume(run, kDeadline, now);
    }
    std::map<std::string, int> finished;
    const auto count = [&](const TrackerOutput& output) {
      for (const weft::Run& run : output.finished) {
        ++finished[run.id];
        RC_ASSERT(run.state != RunState::kActive);
        RC_ASSERT(run.end_time == now);
      }
    };
    const int events = *rc::gen::inRange(0, 80);
    for (int i = 0; i < events; ++i) {
      count(tracker.Tick(now));  // as the loop does; without it phases would last as long as events come
      count(RandomEvent(tracker, runs, now));
      now += absl::Milliseconds(*rc::gen::inRange(0, 1500));
    }
    while (tracker.NextDeadline() < absl::InfiniteFuture()) {
      now = std::max(now, tracker.NextDeadline());
      count(tracker.Tick(now));
    }
    RC_ASSERT(finished.size() == static_cast<size_t>(runs));
    for (const auto& [id, times] : finished) RC_ASSERT(times == 1);
    RC_ASSERT(tracker.BusyNodes().empty());
    const absl::Duration bound =
        options.lease_timeout + options.rendezvous_timeout + kDeadline + options.result_grace;
    RC_ASSERT(now <= kStart + std::max(bound, absl::Milliseconds(1500) * events));
  }));
}

}  // namespace
}  // namespace weft
