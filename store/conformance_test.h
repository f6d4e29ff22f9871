// What every Store must do. A backend's test includes this and instantiates it:
//   INSTANTIATE_TEST_SUITE_P(Sqlite, StoreConformanceTest, testing::Values(StoreFactory(&MakeSqliteStore)));
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/store.h"
#include "store/test_values.h"

namespace weft {

// A store of a backend, empty at first.
class StoreUnderTest {
 public:
  virtual ~StoreUnderTest() = default;
  virtual Store& store() = 0;
  // Closes the store and opens it again with what it holds.
  virtual void Reopen() = 0;
};
using StoreFactory = std::function<std::unique_ptr<StoreUnderTest>()>;

class StoreConformanceTest : public testing::TestWithParam<StoreFactory> {
 protected:
  StoreConformanceTest() : under_test_(GetParam()()) {}
  Store& store() { return under_test_->store(); }
  void Reopen() { under_test_->Reopen(); }

  absl::StatusOr<ResultAppendOutcome> Append(std::vector<ResultAppend::Record> records) {
    return AppendAndWait(store(), {"node-a", "epoch-1", std::move(records)});
  }
  // Runs r1 … rN, N rounds, each with a result of node-a.
  void Fill(int runs) {
    for (int i = 1; i <= runs; ++i) {
      const std::string id = absl::StrCat("r", i);
      ASSERT_EQ(store().PutRuns({TestRun(id, i, static_cast<uint64_t>(i))}), absl::OkStatus());
      ASSERT_TRUE(Append({{static_cast<uint64_t>(i), TestResult(id)}}).ok());
    }
  }
  std::vector<std::string> RunIds(const std::string& node_id, const PageRequest& page) {
    std::vector<std::string> ids;
    const auto runs = store().ListRuns({node_id, ""}, page);
    for (const weft::Run& run : runs.value()) ids.push_back(run.id);
    return ids;
  }
  std::vector<int64_t> ResultIds(absl::StatusOr<std::vector<StoredResult>> results) {
    std::vector<int64_t> ids;
    for (const StoredResult& result : results.value()) ids.push_back(result.id);
    return ids;
  }

  std::unique_ptr<StoreUnderTest> under_test_;
};

TEST_P(StoreConformanceTest, NodesComeBackWholeAndKeepFirstSeenAndLastSuccess) {
  NodeRecord record;
  record.node = {"node-a",
                 "host-1",
                 {{"rack", "r1"}},
                 {{"mlx5_0", "mlx5_core", 50000000000, "InfiniBand", "ACTIVE", "0000:17:00.0"}},
                 {{"0000:18:00.0", "GPU-1", "H200"}},
                 {{"agent", "0.1"}}};
  record.boot_id = "boot-1";
  record.first_seen = record.last_seen = TestTime(0);
  record.clock_offset = absl::Milliseconds(-20);
  record.spool_lost_records = 7;
  ASSERT_EQ(store().PutNode(record), absl::OkStatus());
  ASSERT_EQ(store().PutRuns({TestRun("r1", 5)}), absl::OkStatus());
  ASSERT_TRUE(Append({{1, TestResult("r1")}}).ok());
  record.first_seen = record.last_seen = TestTime(9);
  record.node.hostname = "host-2";
  ASSERT_EQ(store().PutNode(record), absl::OkStatus());
  Reopen();
  const auto nodes = store().ListNodes();
  ASSERT_TRUE(nodes.ok() && nodes->size() == 1);
  EXPECT_EQ((*nodes)[0].node, record.node);
  EXPECT_EQ((*nodes)[0].boot_id, "boot-1");
  EXPECT_EQ((*nodes)[0].first_seen, TestTime(0));
  EXPECT_EQ((*nodes)[0].last_seen, TestTime(9));
  EXPECT_EQ((*nodes)[0].last_success, TestTime(5));
  EXPECT_EQ((*nodes)[0].clock_offset, absl::Milliseconds(-20));
  EXPECT_EQ((*nodes)[0].spool_lost_records, 7u);
}

TEST_P(StoreConformanceTest, OnlyOkResultsMoveLastSuccessAndOnlyForward) {
  NodeRecord record;
  record.node.id = "node-a";
  ASSERT_EQ(store().PutNode(record), absl::OkStatus());
  EXPECT_EQ(store().ListNodes().value()[0].last_success, absl::InfinitePast());
  ASSERT_EQ(store().PutRuns({TestRun("r1", 1), TestRun("r2", 2), TestRun("r3", 3)}), absl::OkStatus());
  Result failed = TestResult("r3");
  failed.outcome = Outcome::kFailed;
  ASSERT_TRUE(Append({{1, TestResult("r2")}}).ok());
  ASSERT_TRUE(Append({{2, TestResult("r1")}, {3, failed}}).ok());
  EXPECT_EQ(store().ListNodes().value()[0].last_success, TestTime(2));
}

TEST_P(StoreConformanceTest, RunsComeBackWholeNewestFirstInPages) {
  const std::vector<weft::Run> runs = {TestRun("r1", 1), TestRun("r2", 2), TestRun("r3", 3)};
  ASSERT_EQ(store().PutRuns(runs), absl::OkStatus());
  weft::Run other = TestRun("r4", 4);
  other.participants = {"node-c", "node-d"};
  ASSERT_EQ(store().PutRuns({other}), absl::OkStatus());
  EXPECT_EQ(store().GetRun(other.id).value(), other);
  EXPECT_EQ(store().GetRun("nothing").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store().ListRuns({}, {}).value(), (std::vector<weft::Run>{other, runs[2], runs[1], runs[0]}));
  EXPECT_THAT(RunIds("node-b", {2, ""}), testing::ElementsAre("r3", "r2"));
  EXPECT_THAT(RunIds("node-b", {2, "r2"}), testing::ElementsAre("r1"));
  EXPECT_THAT(RunIds("", {2, "r4"}), testing::ElementsAre("r3", "r2"));
  EXPECT_THAT(RunIds("node-x", {}), testing::IsEmpty());
}

TEST_P(StoreConformanceTest, RunsAreFilteredByNodeProbeAndTimeTogether) {
  std::vector<weft::Run> runs = {TestRun("r1", 1), TestRun("r2", 2), TestRun("r3", 3)};
  runs[1].spec.name = "other";
  runs[2].participants = {"node-c", "node-d"};
  ASSERT_EQ(store().PutRuns(runs), absl::OkStatus());
  const auto ids = [&](const Store::RunFilter& filter) {
    std::vector<std::string> found;
    const auto listed = store().ListRuns(filter, {});
    for (const weft::Run& run : listed.value()) found.push_back(run.id);
    return found;
  };
  EXPECT_THAT(ids({"", "fabric"}), testing::ElementsAre("r3", "r1"));
  EXPECT_THAT(ids({"", "", TestTime(2)}), testing::ElementsAre("r3", "r2"));
  EXPECT_THAT(ids({"node-a", "fabric"}), testing::ElementsAre("r1"));
  EXPECT_THAT(ids({"node-a", "", TestTime(2)}), testing::ElementsAre("r2"));
  EXPECT_THAT(ids({"node-a", "fabric", TestTime(2)}), testing::IsEmpty());
}

TEST_P(StoreConformanceTest, ARemovedNodeIsForgottenAndItsHistoryIsNot) {
  NodeRecord record;
  record.node.id = "node-a";
  ASSERT_EQ(store().PutNode(record), absl::OkStatus());
  Fill(2);
  ASSERT_EQ(store().CommitDetection({0, {}, {TestEpisode("e1", "node-a", {"r1"})}, {}, {}}),
            absl::OkStatus());
  ASSERT_EQ(store().RemoveNode("node-a"), absl::OkStatus());
  EXPECT_EQ(store().RemoveNode("node-a").code(), absl::StatusCode::kNotFound);
  Reopen();
  EXPECT_THAT(store().ListNodes().value(), testing::IsEmpty());
  EXPECT_EQ(store().NodeHistory("node-a", absl::InfinitePast(), {}).value().size(), 2u);
  EXPECT_THAT(RunIds("node-a", {}), testing::ElementsAre("r2", "r1"));
  EXPECT_EQ(store().OpenEpisodes().value().size(), 1u);
  EXPECT_THAT(Append({{2, TestResult("r2")}}).value().duplicate, testing::ElementsAre(2u));
}

TEST_P(StoreConformanceTest, ARunThatIsThereFailsItsWholeBatch) {
  ASSERT_EQ(store().PutRuns({TestRun("r1")}), absl::OkStatus());
  EXPECT_EQ(store().PutRuns({TestRun("r2"), TestRun("r1")}).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(RunIds("", {}), testing::ElementsAre("r1"));
}

TEST_P(StoreConformanceTest, OnlyActiveRunsAreFinished) {
  ASSERT_EQ(store().PutRuns({TestRun("r1"), TestRun("r2")}), absl::OkStatus());
  weft::Run done = TestRun("r1");
  done.state = RunState::kTimedOut;
  done.end_time = TestTime(9);
  done.detail = "rank 1 never came";
  ASSERT_EQ(store().FinishRuns({done}), absl::OkStatus());
  weft::Run again = done;
  again.state = RunState::kOk;
  again.detail = "";
  ASSERT_EQ(store().FinishRuns({again}), absl::OkStatus());
  EXPECT_EQ(store().ListRuns({}, {}).value()[1], done);
  EXPECT_EQ(store().ListActiveRuns().value(), std::vector<weft::Run>{TestRun("r2")});
}

TEST_P(StoreConformanceTest, LastRoundIsTheHighestOfItsCohortAndProbe) {
  EXPECT_EQ(store().LastRound("fabric", "rack-1").value(), 0u);
  ASSERT_EQ(store().PutRuns({TestRun("r1", 1, 7), TestRun("r2", 2, 5), TestRun("r3", 3, 7)}),
            absl::OkStatus());
  Reopen();
  EXPECT_EQ(store().LastRound("fabric", "rack-1").value(), 7u);
  EXPECT_EQ(store().LastRound("fabric", "rack-2").value(), 0u);
  EXPECT_EQ(store().Stats().value().rounds, 1u);
}

TEST_P(StoreConformanceTest, ResultsComeBackWholeWithTheirRun) {
  ASSERT_EQ(store().PutRuns({TestRun("r1", 1, 3)}), absl::OkStatus());
  ASSERT_TRUE(Append({{1, TestResult("r1")}}).ok());
  Reopen();
  const auto results = store().ReadResults(0, 10);
  ASSERT_TRUE(results.ok() && results->size() == 1);
  const StoredResult& stored = (*results)[0];
  EXPECT_EQ(stored.result, TestResult("r1"));
  EXPECT_EQ(stored.probe, "fabric");
  EXPECT_EQ(stored.participants, TestRun("r1").participants);
  EXPECT_EQ(stored.cohort, "rack-1");
  EXPECT_EQ(stored.round, 3u);
  EXPECT_EQ(stored.plan_time, TestTime(1));
  EXPECT_TRUE(stored.in_maintenance);
  EXPECT_GT(stored.id, 0);
}

TEST_P(StoreConformanceTest, EveryRecordIsStoredOrToldWhyNot) {
  ASSERT_EQ(store().PutRuns({TestRun("r1")}), absl::OkStatus());
  const auto outcome = Append({{1, TestResult("r1")},
                               {2, TestResult("r9")},
                               {3, TestResult("r1", "node-a", 1)},
                               {4, TestResult("r1", "node-b", 1)},
                               {5, TestResult("r1", "node-a", 2)},
                               {1, TestResult("r1")}});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(outcome->stored, testing::ElementsAre(1));
  EXPECT_THAT(outcome->unknown_run, testing::ElementsAre(2));
  EXPECT_THAT(outcome->wrong_node, testing::ElementsAre(3, 4, 5));
  EXPECT_THAT(outcome->duplicate, testing::ElementsAre(1));
}

TEST_P(StoreConformanceTest, AKeySeenBeforeIsADuplicateWhateverItsPayload) {
  ASSERT_EQ(store().PutRuns({TestRun("r1"), TestRun("r2")}), absl::OkStatus());
  ASSERT_TRUE(Append({{7, TestResult("r1")}}).ok());
  Reopen();
  EXPECT_THAT(Append({{7, TestResult("r2")}})->duplicate, testing::ElementsAre(7));
  EXPECT_THAT(AppendAndWait(store(), {"node-a", "epoch-2", {{7, TestResult("r2")}}})->stored,
              testing::ElementsAre(7));
  EXPECT_EQ(store().Stats().value().results, 2u);
}

// As from a spool that lost its state and sends what is stored under a new epoch.
TEST_P(StoreConformanceTest, ASecondResultOfOneRankIsADuplicateWhateverItsKey) {
  ASSERT_EQ(store().PutRuns({TestRun("r1"), TestRun("r2")}), absl::OkStatus());
  ASSERT_TRUE(Append({{7, TestResult("r1")}}).ok());
  Reopen();
  const auto outcome =
      AppendAndWait(store(), {"node-a", "epoch-2", {{1, TestResult("r1")}, {2, TestResult("r2")}}});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(outcome->duplicate, testing::ElementsAre(1));
  EXPECT_THAT(outcome->stored, testing::ElementsAre(2));
  EXPECT_EQ(store().Stats().value().results, 2u);
}

TEST_P(StoreConformanceTest, NumbersThatAreNotFiniteAreRefusedWithTheWholeCall) {
  ASSERT_EQ(store().PutRuns({WideRun("r1", 2)}), absl::OkStatus());
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Result result = TestResult("r1", "node-a", 1);
    result.measurements[0].distribution.p99 = bad;
    EXPECT_EQ(Append({{1, TestResult("r1")}, {2, result}}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(ResultIds(store().ReadResults(0, 10)), testing::IsEmpty());
  EXPECT_THAT(Append({{1, TestResult("r1")}})->stored, testing::ElementsAre(1));
}

TEST_P(StoreConformanceTest, TextThatIsNotUtf8IsRefusedAndSpoilsNoLaterRead) {
  ASSERT_EQ(store().PutRuns({TestRun("r1")}), absl::OkStatus());
  Result result = TestResult("r1");
  result.detail = "bad \xff";
  EXPECT_EQ(Append({{1, result}}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(store().ReadResults(0, 10).ok());
}

TEST_P(StoreConformanceTest, ResultIdsRiseAndAreNeverUsedAgain) {
  Fill(3);
  const std::vector<int64_t> ids = ResultIds(store().ReadResults(0, 10));
  EXPECT_THAT(ids, testing::SizeIs(3));
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
  EXPECT_THAT(ResultIds(store().ReadResults(ids[0], 1)), testing::ElementsAre(ids[1]));
  ASSERT_EQ(store().CommitDetection({ids[2], {}, {}, {}, {}}), absl::OkStatus());
  while (store().DeleteOlderThan(TestTime(100), 100).value() > 0) {
  }
  Reopen();
  ASSERT_EQ(store().PutRuns({TestRun("r4", 4, 4)}), absl::OkStatus());
  ASSERT_TRUE(Append({{4, TestResult("r4")}}).ok());
  EXPECT_GT(ResultIds(store().ReadResults(0, 10))[0], ids[2]);
}

TEST_P(StoreConformanceTest, HistoryIsOneNodesNewestFirstInPages) {
  Fill(4);
  ASSERT_TRUE(AppendAndWait(store(), {"node-b", "epoch-b", {{1, TestResult("r4", "node-b", 1)}}}).ok());
  const std::vector<int64_t> all = ResultIds(store().NodeHistory("node-a", TestTime(2), {}));
  ASSERT_THAT(all, testing::SizeIs(3));
  EXPECT_TRUE(std::is_sorted(all.rbegin(), all.rend()));
  EXPECT_THAT(ResultIds(store().NodeHistory("node-a", TestTime(2), {2, absl::StrCat(all[0])})),
              testing::ElementsAre(all[1], all[2]));
  EXPECT_EQ(store().NodeHistory("node-a", TestTime(2), {2, "x"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(StoreConformanceTest, ResultsOfRunsAreThoseOfAllParticipants) {
  Fill(2);
  ASSERT_TRUE(AppendAndWait(store(), {"node-b", "epoch-b", {{1, TestResult("r2", "node-b", 1)}}}).ok());
  EXPECT_THAT(store().ResultsOfRuns({"r2", "r9"}).value(), testing::SizeIs(2));
}

TEST_P(StoreConformanceTest, DetectionIsCommittedAsAWhole) {
  DetectionCommit commit;
  commit.cursor = 9;
  commit.states = {{"a", "1"}, {"b", "2"}};
  commit.episodes = {TestEpisode("e1", "node-a", {"r1"})};
  commit.deliveries = {TestDelivery("d1", "e1", 1)};
  ASSERT_EQ(store().CommitDetection(commit), absl::OkStatus());
  DetectionCommit bad;
  bad.cursor = 10;
  bad.states = {{"a", ""}};
  bad.episodes = {TestEpisode("e2", "node-b", {})};
  bad.deliveries = {TestDelivery("d2", "e1", 1)};  // the sequence was used
  EXPECT_EQ(store().CommitDetection(bad).code(), absl::StatusCode::kAlreadyExists);
  Reopen();
  EXPECT_EQ(store().DetectionCursor().value(), 9);
  EXPECT_EQ(store().LoadDetectorStates().value(), commit.states);
  EXPECT_EQ(store().OpenEpisodes().value(), commit.episodes);
  EXPECT_EQ(store().PendingDeliveries().value(), commit.deliveries);
}

TEST_P(StoreConformanceTest, TheCursorNeverMovesBackAndEmptyStatesAreForgotten) {
  ASSERT_EQ(store().CommitDetection({9, {{"a", "1"}, {"b", "2"}}, {}, {}, {}}), absl::OkStatus());
  ASSERT_EQ(store().CommitDetection({3, {{"a", ""}, {"b", "3"}}, {}, {}, {}}), absl::OkStatus());
  EXPECT_EQ(store().DetectionCursor().value(), 9);
  EXPECT_EQ(store().LoadDetectorStates().value(), (std::vector<DetectorState>{{"b", "3"}}));
}

TEST_P(StoreConformanceTest, AtMostOneEpisodeOfAKeyIsOpen) {
  Episode first = TestEpisode("e1", "node-a", {});
  ASSERT_EQ(store().CommitDetection({0, {}, {first}, {}, {}}), absl::OkStatus());
  const Episode second = TestEpisode("e2", "node-a", {});
  EXPECT_EQ(store().CommitDetection({0, {}, {second}, {}, {}}).code(), absl::StatusCode::kAlreadyExists);
  first.resolve_time = TestTime(20);
  ASSERT_EQ(store().CommitDetection({0, {}, {second, first}, {}, {}}), absl::OkStatus());
  EXPECT_EQ(store().OpenEpisodes().value(), std::vector<Episode>{second});
  EXPECT_EQ(store().GetEpisode("e1").value(), first);
  EXPECT_EQ(store().GetEpisode("e9").status().code(), absl::StatusCode::kNotFound);
}

TEST_P(StoreConformanceTest, EpisodesAreListedByFilterNewestFirst) {
  Episode info = TestEpisode("e1", "node-a", {});
  info.finding.kind = FindingKind::kTransient;
  info.finding.severity = Severity::kInfo;
  Episode resolved = TestEpisode("e2", "node-a", {});
  resolved.resolve_time = TestTime(9);
  const Episode open = TestEpisode("e3", "node-b", {});
  ASSERT_EQ(store().CommitDetection({0, {}, {info, resolved, open}, {}, {}}), absl::OkStatus());
  EXPECT_EQ(store().ListEpisodes({}, {}).value(), (std::vector<Episode>{open, resolved}));
  EXPECT_EQ(store().ListEpisodes({true, "", false}, {}).value(), std::vector<Episode>{open});
  EXPECT_EQ(store().ListEpisodes({false, "node-a", true}, {}).value(),
            (std::vector<Episode>{resolved, info}));
  EXPECT_EQ(store().ListEpisodes({false, "", true}, {1, "e3"}).value(), std::vector<Episode>{resolved});
}

TEST_P(StoreConformanceTest, OnlyPendingDeliveriesChange) {
  ASSERT_EQ(store().CommitDetection({0,
                                     {},
                                     {TestEpisode("e1", "node-a", {})},
                                     {TestDelivery("d2", "e1", 2), TestDelivery("d1", "e1", 1)},
                                     {}}),
            absl::OkStatus());
  EXPECT_EQ(store().PendingDeliveries().value()[0].id, "d1");
  Delivery sent = TestDelivery("d1", "e1", 1);
  sent.state = DeliveryState::kDelivered;
  sent.attempts = 3;
  sent.outcome_unknown = true;
  sent.not_before = TestTime(5);
  sent.deliver_time = TestTime(6);
  sent.last_status = 204;
  sent.last_error = "time-out before";
  ASSERT_EQ(store().UpdateDelivery(sent), absl::OkStatus());
  EXPECT_EQ(store().UpdateDelivery(sent).code(), absl::StatusCode::kNotFound);
  ASSERT_EQ(store().CommitDetection({0, {}, {}, {}, {"d1", "d2"}}), absl::OkStatus());
  EXPECT_THAT(store().PendingDeliveries().value(), testing::IsEmpty());
  const auto all = store().ListDeliveries("e1", {}).value();
  ASSERT_THAT(all, testing::SizeIs(2));
  EXPECT_EQ(all[0], sent);
  EXPECT_EQ(all[1].state, DeliveryState::kDropped);
  EXPECT_EQ(store().ListDeliveries("", {1, "d1"}).value()[0].id, "d2");
}

TEST_P(StoreConformanceTest, ARepeatedCreateAnswersTheSameWindow) {
  const MaintenanceWindow window = TestWindow("mw-1", "req-1");
  EXPECT_EQ(store().CreateWindow(window).value(), window);
  MaintenanceWindow ended = window;
  ended.ended_time = TestTime(30);
  ended.ended_by = "bob";
  ended.revision = 2;
  ASSERT_EQ(store().UpdateWindow(ended), absl::OkStatus());
  Reopen();
  EXPECT_EQ(store().CreateWindow(TestWindow("mw-2", "req-1")).value(), ended);
  MaintenanceWindow other = TestWindow("mw-3", "req-1");
  other.reason = "fans";
  EXPECT_EQ(store().CreateWindow(other).status().code(), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(store().CreateWindow(TestWindow("mw-4")).ok());
  ASSERT_TRUE(store().CreateWindow(TestWindow("mw-5")).ok());
  EXPECT_EQ(store().ListWindows().value(),
            (std::vector<MaintenanceWindow>{TestWindow("mw-5"), TestWindow("mw-4"), ended}));
}

TEST_P(StoreConformanceTest, AWindowChangesOnlyFromTheRevisionThatWasRead) {
  MaintenanceWindow window = TestWindow("mw-1");
  window.schedule = Weekly{{absl::Weekday::monday}, 120, absl::Hours(2), "Europe/Berlin", TestTime(9000)};
  ASSERT_TRUE(store().CreateWindow(window).ok());
  window.revision = 3;
  EXPECT_EQ(store().UpdateWindow(window).code(), absl::StatusCode::kAborted);
  window.revision = 2;
  EXPECT_EQ(store().UpdateWindow(window), absl::OkStatus());
  EXPECT_EQ(store().UpdateWindow(window).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(store().UpdateWindow(TestWindow("mw-9")).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store().ListWindows().value(), std::vector<MaintenanceWindow>{window});
}

TEST_P(StoreConformanceTest, RetentionKeepsEvidenceUnreadResultsAndCounters) {
  Fill(5);
  const std::vector<int64_t> ids = ResultIds(store().ReadResults(0, 10));
  ASSERT_EQ(store().CommitDetection({ids[3], {}, {TestEpisode("e1", "node-a", {"r2"})}, {}, {}}),
            absl::OkStatus());
  uint64_t deleted = 0;
  for (uint64_t step = 1; step > 0; deleted += step) {
    step = store().DeleteOlderThan(TestTime(100), 2).value();
    EXPECT_LE(step, 2u);
  }
  EXPECT_EQ(deleted, 6u);
  EXPECT_THAT(RunIds("", {}), testing::ElementsAre("r5", "r2"));
  EXPECT_THAT(ResultIds(store().ReadResults(0, 10)), testing::ElementsAre(ids[1], ids[4]));
  EXPECT_EQ(store().Stats().value().results, 5u);
  EXPECT_EQ(store().Stats().value().rounds, 5u);
  EXPECT_EQ(store().LastRound("fabric", "rack-1").value(), 5u);
  EXPECT_THAT(Append({{1, TestResult("r1")}})->duplicate, testing::ElementsAre(1));
}

TEST_P(StoreConformanceTest, RetentionKeepsWhatIsNotOlder) {
  Fill(3);
  ASSERT_EQ(store().CommitDetection({100, {}, {}, {}, {}}), absl::OkStatus());
  EXPECT_EQ(store().DeleteOlderThan(TestTime(2), 100).value(), 2u);
  EXPECT_THAT(RunIds("", {}), testing::ElementsAre("r3", "r2"));
}

TEST_P(StoreConformanceTest, RetentionEndsResolvedEpisodesWithTheirFinishedDeliveries) {
  Episode old = TestEpisode("e1", "node-a", {});
  old.resolve_time = TestTime(9);
  const Episode open = TestEpisode("e2", "node-b", {});
  Episode waiting = TestEpisode("e3", "node-c", {});
  waiting.resolve_time = TestTime(9);
  Delivery done = TestDelivery("d1", "e1", 1);
  done.state = DeliveryState::kDead;
  ASSERT_EQ(store().CommitDetection({0, {}, {old, open, waiting}, {done, TestDelivery("d2", "e3", 1)}, {}}),
            absl::OkStatus());
  while (store().DeleteOlderThan(TestTime(100), 1).value() > 0) {
  }
  EXPECT_EQ(store().ListEpisodes({}, {}).value(), (std::vector<Episode>{waiting, open}));
  EXPECT_THAT(store().ListDeliveries("", {}).value(), testing::SizeIs(1));
}

TEST_P(StoreConformanceTest, ManyThreadsAppendAndReadAtOnce) {
  constexpr int kThreads = 8;
  constexpr uint64_t kAppends = 25;
  ASSERT_EQ(store().PutRuns({WideRun("r1", kThreads * kAppends)}), absl::OkStatus());
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 1; i <= kAppends; ++i) {
        const uint32_t rank = static_cast<uint32_t>(t * kAppends + i - 1);
        const auto outcome = AppendAndWait(
            store(), {"node-a", absl::StrCat("epoch-", t), {{i, TestResult("r1", "node-a", rank)}}});
        if (!outcome.ok() || outcome->stored.size() != 1) ++failed;
        if (!store().ReadResults(0, 5).ok()) ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(store().Stats().value().results, kThreads * kAppends);
  EXPECT_THAT(store().ReadResults(0, 1000).value(), testing::SizeIs(kThreads * kAppends));
}

TEST_P(StoreConformanceTest, AnyOrderWithRepeatsStoresEachKeyOnce) {
  int trial = 0;
  EXPECT_TRUE(rc::check([&](const std::vector<std::vector<uint8_t>>& batches) {
    const std::string epoch = absl::StrCat("trial-", ++trial);
    RC_ASSERT(store().PutRuns({WideRun(epoch, 41)}).ok());
    const uint64_t before = store().Stats().value().results;
    std::set<uint64_t> seen;
    for (const std::vector<uint8_t>& batch : batches) {
      ResultAppend append{"node-a", epoch, {}};
      std::vector<uint64_t> fresh;
      for (const uint8_t byte : batch) {
        const uint64_t sequence = byte % 40u + 1;
        if (seen.insert(sequence).second) fresh.push_back(sequence);
        append.records.push_back({sequence, TestResult(epoch, "node-a", static_cast<uint32_t>(sequence))});
      }
      const auto outcome = AppendAndWait(store(), append);
      RC_ASSERT(outcome.ok());
      RC_ASSERT(outcome->stored == fresh);
      RC_ASSERT(outcome->stored.size() + outcome->duplicate.size() == batch.size());
    }
    RC_ASSERT(store().Stats().value().results - before == seen.size());
  }));
}

}  // namespace weft
