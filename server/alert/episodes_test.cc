#include "server/alert/episodes.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "convert/convert.h"
#include "server/alert/outbox.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// 2026-05-01T10:00:00Z
const absl::Time kTen = absl::FromUnixSeconds(1777629600);
absl::Time At(int minutes) { return kTen + absl::Minutes(minutes); }

const std::map<std::string, Node>& Fleet() {
  static const auto& fleet =
      *new std::map<std::string, Node>{{"id-a", {"id-a", "node-a", {{"rack", "1"}}, {}, {}, {}}},
                                       {"id-b", {"id-b", "node-b", {{"rack", "1"}}, {}, {}, {}}},
                                       {"id-c", {"id-c", "node-c", {{"rack", "2"}}, {}, {}, {}}}};
  return fleet;
}

const Node* Lookup(absl::string_view id) {
  const auto it = Fleet().find(std::string(id));
  return it == Fleet().end() ? nullptr : &it->second;
}

Finding Slow(std::vector<std::string> node_ids, absl::Time since = kTen) {
  Finding finding;
  finding.scope = node_ids.size() == 2 ? FindingScope::kPair : FindingScope::kNode;
  finding.node_ids = std::move(node_ids);
  finding.probe = "fabric_write";
  finding.ratio = 0.5;
  finding.observed = 5e9;
  finding.expected = 1e10;
  finding.confidence = 0.9;
  finding.since = since;
  finding.summary = "half of the expected bandwidth";
  finding.evidence = {{"run-1", since, "id-c", 5e9, 1e10, Metric::kWriteBandwidth}};
  return finding;
}

MaintenanceWindow WindowOn(std::string id, std::string node, absl::Time start, absl::Time end) {
  MaintenanceWindow window;
  window.id = std::move(id);
  window.matchers = {{"node", MatchOperator::kIn, {std::move(node)}}};
  window.schedule = OneOff{start, end};
  window.reason = "new switch";
  window.created_by = "ann";
  return window;
}

// The store and the server around Reconcile, as small as they can be: what is committed lasts, nothing else
// does.
class World {
 public:
  std::vector<Finding> findings;
  std::vector<MaintenanceWindow> windows;
  std::vector<std::string> receivers = {"pager"};

  EpisodeInput Input(absl::Time now) const {
    EpisodeInput input;
    input.findings = findings;
    input.windows = windows;
    input.receivers = receivers;
    input.nodes = Lookup;
    input.external_url = "https://weft.example";
    for (const auto& [id, episode] : episodes_)
      if (episode.is_open()) input.open_episodes.push_back(episode);
    const std::vector<std::string> wanted = EpisodesToLookUp(input, now);
    for (const auto& [id, row] : rows_) {
      const bool looked_up = std::find(wanted.begin(), wanted.end(), row.episode_id) != wanted.end();
      if (looked_up || row.state == DeliveryState::kPending) input.deliveries.push_back(row);
    }
    return input;
  }

  EpisodeChanges Evaluate(absl::Time now) {
    const EpisodeChanges changes = Reconcile(Input(now), now);
    Commit(changes);
    return changes;
  }

  void Commit(const EpisodeChanges& changes) {
    for (const Episode& episode : changes.episodes) episodes_[episode.id] = episode;
    for (const Delivery& row : changes.deliveries) {
      EXPECT_TRUE(lanes_.insert(absl::StrCat(row.receiver, "|", row.episode_id, "|", row.sequence)).second)
          << "(receiver, episode, sequence) must be unique";
      EXPECT_TRUE(rows_.emplace(row.id, row).second);
    }
    for (const std::string& id : changes.drop_deliveries)
      if (rows_.at(id).state == DeliveryState::kPending) rows_.at(id).state = DeliveryState::kDropped;
  }

  // As Store::UpdateDelivery: only pending rows change.
  bool Update(const Delivery& row) {
    Delivery& stored = rows_.at(row.id);
    if (stored.state != DeliveryState::kPending) return false;
    stored = row;
    return true;
  }

  // Delivers what is due; the receivers answer with `status`.
  std::vector<Delivery> Deliver(absl::Time now, int status = 200) {
    std::vector<Delivery> sent;
    for (const Delivery& due : Due(Rows(), now)) {
      if (!Update(BeginAttempt(due))) continue;
      AttemptResult result;
      result.status = status;
      Update(AfterAttempt(due, result, now));
      sent.push_back(due);
    }
    return sent;
  }

  std::vector<Delivery> Rows() const {
    std::vector<Delivery> rows;
    for (const auto& [id, row] : rows_) rows.push_back(row);
    return rows;
  }
  void ForgetRows() { rows_.clear(); }
  const Delivery& Row(const std::string& id) const { return rows_.at(id); }
  const std::map<std::string, Episode>& episodes() const { return episodes_; }
  const Episode& Only() const { return episodes_.begin()->second; }

 private:
  std::map<std::string, Episode> episodes_;
  std::map<std::string, Delivery> rows_;
  std::set<std::string> lanes_;
};

std::vector<DeliveryAction> Actions(const std::vector<Delivery>& deliveries) {
  std::vector<DeliveryAction> actions;
  for (const Delivery& delivery : deliveries) actions.push_back(delivery.action);
  return actions;
}

v1::WebhookEvent Parsed(const std::string& body) {
  v1::WebhookEvent event;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(body, &event).ok()) << body;
  return event;
}

constexpr DeliveryAction kTrigger = DeliveryAction::kTrigger;
constexpr DeliveryAction kResolve = DeliveryAction::kResolve;

// --- Life without windows ---

TEST(Episodes, AFindingOpensOneEpisodeAndTriggersEachReceiverOnce) {
  World world;
  world.receivers = {"chat", "pager"};
  world.findings = {Slow({"id-a"})};
  const EpisodeChanges changes = world.Evaluate(At(0));
  ASSERT_THAT(changes.episodes, SizeIs(1));
  EXPECT_TRUE(changes.episodes[0].notified);
  EXPECT_EQ(changes.episodes[0].open_time, At(0));
  EXPECT_THAT(Actions(changes.deliveries), ElementsAre(kTrigger, kTrigger));
  EXPECT_EQ(changes.deliveries[0].sequence, 1u);
  EXPECT_TRUE(world.Evaluate(At(1)).empty());
}

TEST(Episodes, DeliveryIdsHaveNoDot) {
  World world;
  world.findings = {Slow({"id-a"})};
  const std::string id = world.Evaluate(At(0)).deliveries.at(0).id;
  EXPECT_TRUE(absl::StartsWith(id, "msg_"));
  EXPECT_FALSE(absl::StrContains(id, "."));
}

TEST(Episodes, ResolvesWhoWasTriggeredAndACameBackFindingIsNew) {
  World world;
  world.findings = {Slow({"id-a"})};
  world.Evaluate(At(0));
  world.Deliver(At(0));
  const std::string first = world.Only().id;
  world.findings.clear();
  const EpisodeChanges end = world.Evaluate(At(5));
  ASSERT_THAT(Actions(end.deliveries), ElementsAre(kResolve));
  EXPECT_EQ(end.deliveries[0].sequence, 2u);
  EXPECT_EQ(end.episodes.at(0).resolve_time, At(5));
  world.Deliver(At(5));
  EXPECT_TRUE(world.Evaluate(At(6)).empty());
  world.findings = {Slow({"id-a"})};
  EXPECT_NE(world.Evaluate(At(7)).episodes.at(0).id, first);
}

TEST(Episodes, InfoAndTransientsAreKeptAndNeverTold) {
  World world;
  Finding info = Slow({"id-a"});
  info.severity = Severity::kInfo;
  Finding transient = Slow({"id-b"});
  transient.kind = FindingKind::kTransient;
  world.findings = {info, transient};
  const EpisodeChanges changes = world.Evaluate(At(0));
  EXPECT_THAT(changes.episodes, SizeIs(2));
  EXPECT_THAT(changes.deliveries, IsEmpty());
  world.findings.clear();
  EXPECT_THAT(world.Evaluate(At(1)).deliveries, IsEmpty());
}

TEST(Episodes, AFindingThatBecomesGraveIsToldThen) {
  World world;
  world.findings = {Slow({"id-a"})};
  world.findings[0].severity = Severity::kInfo;
  world.Evaluate(At(0));
  world.findings[0].severity = Severity::kWarning;
  EXPECT_THAT(Actions(world.Evaluate(At(1)).deliveries), ElementsAre(kTrigger));
}

TEST(Episodes, SeverityAndRatioMoveWithinTheSameEpisode) {
  World world;
  world.findings = {Slow({"id-a"})};
  world.Evaluate(At(0));
  world.findings[0].severity = Severity::kCritical;
  world.findings[0].ratio = 0.2;
  const EpisodeChanges changes = world.Evaluate(At(1));
  ASSERT_THAT(changes.episodes, SizeIs(1));
  EXPECT_EQ(changes.episodes[0].id, world.Only().id);
  EXPECT_EQ(changes.episodes[0].finding.severity, Severity::kCritical);
  EXPECT_THAT(changes.deliveries, IsEmpty());
  EXPECT_THAT(world.episodes(), SizeIs(1));
}

TEST(Episodes, SmallMovesAreNotWritten) {
  World world;
  world.findings = {Slow({"id-a"})};
  world.Evaluate(At(0));
  world.findings[0].ratio += 0.01;
  world.findings[0].observed *= 1.01;
  world.findings[0].evidence[0].time += absl::Minutes(4);
  EXPECT_TRUE(world.Evaluate(At(1)).empty());
  world.findings[0].evidence[0].time += absl::Minutes(1);
  EXPECT_THAT(world.Evaluate(At(2)).episodes, SizeIs(1));
}

TEST(Episodes, ATriggerThatNeverWentOutIsDroppedAndNothingIsSent) {
  World world;
  world.findings = {Slow({"id-a"})};
  const std::string id = world.Evaluate(At(0)).deliveries.at(0).id;
  world.Deliver(At(0), 503);
  world.findings.clear();
  const EpisodeChanges end = world.Evaluate(At(1));
  EXPECT_THAT(end.deliveries, IsEmpty());
  EXPECT_THAT(end.drop_deliveries, ElementsAre(id));
  EXPECT_THAT(world.Deliver(At(30)), IsEmpty());
}

TEST(Episodes, ATriggerThatMayHaveArrivedIsDroppedAndResolved) {
  World world;
  world.findings = {Slow({"id-a"})};
  world.Evaluate(At(0));
  world.Deliver(At(0), 504);
  world.findings.clear();
  EXPECT_THAT(Actions(world.Evaluate(At(1)).deliveries), ElementsAre(kResolve));
  EXPECT_THAT(Actions(world.Deliver(At(30))), ElementsAre(kResolve));
}

TEST(Episodes, AnAttemptCutOffByACrashCountsAsPossiblyArrived) {
  World world;
  world.findings = {Slow({"id-a"})};
  world.Evaluate(At(0));
  const Delivery due = Due(world.Rows(), At(0)).at(0);
  ASSERT_TRUE(world.Update(BeginAttempt(due)));  // and then the process dies
  world.findings.clear();
  EXPECT_THAT(Actions(world.Evaluate(At(1)).deliveries), ElementsAre(kResolve));
}

TEST(Episodes, ATriggerThatWasRefusedForGoodNeedsNoResolve) {
  World world;
  world.findings = {Slow({"id-a"})};
  world.Evaluate(At(0));
  world.Deliver(At(0), 422);
  world.findings.clear();
  EXPECT_THAT(world.Evaluate(At(1)).deliveries, IsEmpty());
}

TEST(Episodes, AReceiverThatWasAddedLaterHearsNoResolve) {
  World world;
  world.findings = {Slow({"id-a"})};
  world.Evaluate(At(0));
  world.Deliver(At(0));
  world.receivers = {"chat", "pager"};
  world.findings.clear();
  const EpisodeChanges end = world.Evaluate(At(1));
  ASSERT_THAT(end.deliveries, SizeIs(1));
  EXPECT_EQ(end.deliveries[0].receiver, "pager");
}

TEST(Episodes, AnEpisodeWhoseRowsHaveAgedOutIsStillResolvedAndNotTriggeredAgain) {
  World world;
  world.findings = {Slow({"id-a"})};
  world.Evaluate(At(0));
  world.Deliver(At(0));
  world.ForgetRows();
  world.windows = {WindowOn("mw-1", "node-a", At(1), At(3))};
  EXPECT_THAT(world.Evaluate(At(2)).deliveries, IsEmpty());
  EXPECT_THAT(world.Evaluate(At(4)).deliveries, IsEmpty());
  world.findings.clear();
  const EpisodeChanges end = world.Evaluate(At(5));
  ASSERT_THAT(Actions(end.deliveries), ElementsAre(kResolve));
  EXPECT_GT(end.deliveries[0].sequence, 2u);
}

TEST(Episodes, TheEndIsTheDetectorsWhereItKnowsIt) {
  // The server was down when the fault ended.
  World world;
  world.findings = {Slow({"id-a"})};
  world.Evaluate(At(0));
  world.Deliver(At(0));
  const std::string key = world.findings[0].Key();
  world.findings.clear();
  EpisodeInput input = world.Input(At(30));
  input.end_times[key] = At(10);
  const EpisodeChanges end = Reconcile(input, At(30));
  ASSERT_THAT(Actions(end.deliveries), ElementsAre(kResolve));
  EXPECT_EQ(end.deliveries[0].not_before, At(30));
  const v1::WebhookEvent event = Parsed(end.deliveries[0].body);
  EXPECT_EQ(FromProto(event.timestamp()), At(10));
  EXPECT_EQ(FromProto(event.data().resolve_time()), At(10));
}

TEST(Episodes, AFaultWithoutNewSamplesStaysOpenAndTheMissingAgentIsItsOwnEpisode) {
  World world;
  world.findings = {Slow({"id-a"})};
  world.Evaluate(At(0));
  world.Deliver(At(0));
  Finding missing = Slow({"id-a"}, At(5));
  missing.kind = FindingKind::kAgentMissing;
  missing.probe.clear();
  world.findings.push_back(missing);
  EXPECT_THAT(Actions(world.Evaluate(At(5)).deliveries), ElementsAre(kTrigger));
  world.Deliver(At(5));
  for (int minute = 6; minute < 50; ++minute) EXPECT_TRUE(world.Evaluate(At(minute)).empty());
  world.findings.pop_back();
  EXPECT_THAT(Actions(world.Evaluate(At(50)).deliveries), ElementsAre(kResolve));
}

TEST(Episodes, TwoOpenEpisodesOfOneKeyBecomeOne) {
  World world;
  world.findings = {Slow({"id-a"}), Slow({"id-a"})};
  EXPECT_THAT(world.Evaluate(At(0)).episodes, SizeIs(1));
  Episode second = world.Only();
  second.id += "x";
  world.Commit({{second}, {}, {}});
  const EpisodeChanges changes = world.Evaluate(At(1));
  ASSERT_THAT(changes.episodes, SizeIs(1));
  EXPECT_FALSE(changes.episodes[0].is_open());
}

// --- Windows ---

TEST(EpisodesInWindows, APagedFaultThatIsMutedAndThenMendedIsResolvedOnceAndAtOnce) {
  World world;
  world.windows = {WindowOn("mw-1", "node-a", At(5), At(120))};
  world.findings = {Slow({"id-a"})};
  std::vector<Delivery> sent;
  std::map<int, size_t> sent_by;
  for (int minute = 0; minute <= 130; ++minute) {
    if (minute == 30) world.findings.clear();
    world.Evaluate(At(minute));
    for (const Delivery& delivery : world.Deliver(At(minute))) sent.push_back(delivery);
    sent_by[minute] = sent.size();
  }
  ASSERT_THAT(Actions(sent), ElementsAre(kTrigger, kResolve));
  EXPECT_EQ(sent_by[0], 1u);
  EXPECT_EQ(sent_by[31], 2u);
  EXPECT_EQ(Parsed(sent[0].body).dedup_key(), Parsed(sent[1].body).dedup_key());
}

TEST(EpisodesInWindows, AFaultThatOutlivesItsWindowIsToldOnceWithItsRealStartAndTheWindowsName) {
  World world;
  world.windows = {WindowOn("mw-1", "node-a", At(0), At(60))};
  std::vector<Delivery> sent;
  for (int minute = 0; minute <= 90; ++minute) {
    if (minute == 10) world.findings = {Slow({"id-a"}, At(10))};
    if (minute > 10) world.findings[0].evidence[0].time = At(minute);
    world.Evaluate(At(minute));
    const std::vector<Delivery> now_sent = world.Deliver(At(minute));
    if (minute < 60) {
      EXPECT_THAT(now_sent, IsEmpty());
    }
    sent.insert(sent.end(), now_sent.begin(), now_sent.end());
    if (minute == 62) {
      ASSERT_THAT(sent, SizeIs(1));
    }
  }
  ASSERT_THAT(Actions(sent), ElementsAre(kTrigger));
  const v1::WebhookEvent event = Parsed(sent[0].body);
  EXPECT_EQ(FromProto(event.data().since_time()), At(10));
  EXPECT_EQ(FromProto(event.data().open_time()), At(10));
  EXPECT_EQ(FromProto(event.timestamp()), At(10));
  EXPECT_THAT(event.note(), HasSubstr("mw-1 (new switch)"));
}

TEST(EpisodesInWindows, AFaultThatComesAndGoesInsideIsKeptAndNobodyIsTold) {
  World world;
  world.windows = {WindowOn("mw-1", "node-a", At(0), At(60))};
  world.findings = {Slow({"id-a"})};
  EXPECT_THAT(world.Evaluate(At(10)).deliveries, IsEmpty());
  EXPECT_THAT(world.Only().muted_by, ElementsAre("mw-1"));
  world.findings.clear();
  const EpisodeChanges end = world.Evaluate(At(20));
  EXPECT_THAT(end.episodes, SizeIs(1));
  EXPECT_THAT(end.deliveries, IsEmpty());
  EXPECT_TRUE(world.Evaluate(At(61)).empty());
}

TEST(EpisodesInWindows, FiveHundredMutedFaultsStaySilentOverTwentyRestarts) {
  World world;
  world.windows = {WindowOn("mw-1", "id-0", At(0), At(600))};
  world.windows[0].matchers = {{"node", MatchOperator::kGlob, {"id-*"}}};
  for (int i = 0; i < 500; ++i) world.findings.push_back(Slow({absl::StrCat("id-", i)}));
  for (int restart = 0; restart < 20; ++restart) {
    EXPECT_THAT(Reconcile(world.Input(At(restart)), At(restart)).deliveries,
                IsEmpty());  // crash before the commit
    EXPECT_THAT(world.Evaluate(At(restart)).deliveries, IsEmpty());
    EXPECT_THAT(world.Deliver(At(restart)), IsEmpty());
  }
  EXPECT_THAT(world.episodes(), SizeIs(500));
}

TEST(EpisodesInWindows, APendingTriggerIsTakenBackWhenAWindowOpensAndQueuedAgainAfterIt) {
  World world;
  world.receivers = {"chat", "pager"};
  world.findings = {Slow({"id-a"})};
  world.Evaluate(At(0));
  world.windows = {WindowOn("mw-1", "node-a", At(5), At(60))};
  // The chat took it; the pager was down.
  for (const Delivery& due : Due(world.Rows(), At(0))) {
    AttemptResult result;
    result.status = due.receiver == "chat" ? 200 : 503;
    world.Update(AfterAttempt(due, result, At(0)));
  }
  EXPECT_THAT(world.Evaluate(At(5)).drop_deliveries, SizeIs(1));
  EXPECT_THAT(world.Deliver(At(10)), IsEmpty());
  const EpisodeChanges after = world.Evaluate(At(60));
  ASSERT_THAT(Actions(after.deliveries), ElementsAre(kTrigger));
  EXPECT_EQ(after.deliveries[0].receiver, "pager");
  EXPECT_EQ(after.deliveries[0].sequence, 2u);
  EXPECT_TRUE(world.Evaluate(At(61)).empty());
}

TEST(EpisodesInWindows, BackToBackWindowsHaveNoEdge) {
  World world;
  world.windows = {WindowOn("mw-1", "node-a", At(0), At(60)), WindowOn("mw-2", "node-a", At(60), At(90))};
  world.findings = {Slow({"id-a"})};
  for (int minute = 0; minute < 90; ++minute) EXPECT_THAT(world.Evaluate(At(minute)).deliveries, IsEmpty());
  EXPECT_THAT(Actions(world.Evaluate(At(90)).deliveries), ElementsAre(kTrigger));
}

TEST(EpisodesInWindows, EndingAWindowByHandTakesEffectInTheNextEvaluation) {
  World world;
  world.windows = {WindowOn("mw-1", "node-a", At(0), At(60))};
  world.findings = {Slow({"id-a"})};
  world.Evaluate(At(1));
  world.windows[0].ended_time = At(2);
  EXPECT_THAT(Actions(world.Evaluate(At(2)).deliveries), ElementsAre(kTrigger));
}

TEST(EpisodesInWindows, AClockThatJumpsHalfADayAndBackTellsNobodyTwice) {
  World world;
  world.windows = {WindowOn("mw-1", "node-a", At(0), At(60))};
  world.findings = {Slow({"id-a"}), Slow({"id-b"})};
  std::vector<Delivery> sent;
  const auto tick = [&](absl::Time now) {
    world.Evaluate(now);
    for (const Delivery& delivery : world.Deliver(now)) sent.push_back(delivery);
  };
  for (int minute = 0; minute < 10; ++minute) tick(At(minute));
  EXPECT_THAT(sent, SizeIs(1));
  for (int minute = 10; minute < 20; ++minute) tick(At(minute) + absl::Hours(12));
  EXPECT_THAT(sent, SizeIs(2));  // by that clock the window is over
  for (int minute = 20; minute < 200; ++minute) tick(At(minute));
  EXPECT_THAT(sent, SizeIs(2));
  world.findings.clear();
  tick(At(200));
  EXPECT_THAT(Actions(sent), ElementsAre(kTrigger, kTrigger, kResolve, kResolve));
}

// --- Bodies ---

TEST(EventBodies, HoldTheWholeStoryAndAreTheSameEachTime) {
  World world;
  world.findings = {Slow({"id-a", "id-c"})};
  world.Evaluate(At(0));
  const std::string body = EventBody(world.Only(), kTrigger, 1, Lookup, "https://weft.example/", "");
  EXPECT_EQ(body, EventBody(world.Only(), kTrigger, 1, Lookup, "https://weft.example/", ""));
  const v1::WebhookEvent event = Parsed(body);
  EXPECT_EQ(event.type(), "finding.opened");
  EXPECT_EQ(event.dedup_key(), world.Only().id);
  EXPECT_EQ(event.sequence(), 1u);
  EXPECT_EQ(event.url(), absl::StrCat("https://weft.example/findings/", world.Only().id));
  EXPECT_THAT(event.data().node_ids(), ElementsAre("id-a", "id-c"));
  EXPECT_THAT(event.data().hostnames(), ElementsAre("node-a", "node-c"));
  EXPECT_THAT(event.data().summary(), testing::StartsWith("node-a - node-c: "));
  EXPECT_EQ(event.data().evidence(0).partner_hostname(), "node-c");
}

TEST(EventBodies, AreValidUtf8WhateverTheInputs) {
  const Node bad = {"id-a", "n\xff\xc3(de", {}, {}, {}, {}};
  Episode episode;
  episode.id = "e\xff";
  episode.finding = Slow({"id-a"});
  episode.finding.summary = "caf\xe9 \x01 \xed\xa0\x80";
  episode.muted_by = {"mw\xfe"};
  episode.finding.evidence[0].run_id = "\x80";
  const std::string body = EventBody(
      episode, kTrigger, 1, [&](absl::string_view) { return &bad; }, "https://x\xff", "n\xffote");
  EXPECT_TRUE(IsValidUtf8(body));
  EXPECT_EQ(Parsed(body).data().hostnames(0), "n\xef\xbf\xbd\xef\xbf\xbd(de");
}

TEST(EventBodies, OverlongSummariesAreCutAtACodePointWithAMark) {
  Episode episode;
  episode.finding = Slow({"id-a"});
  episode.finding.summary.clear();
  for (int i = 0; i < 1016; ++i) episode.finding.summary += i % 2 == 0 ? "\xe8\x8a\x82" : "\xf0\x9f\x94\xa5";
  const std::string whole = absl::StrCat("node-a: ", episode.finding.summary);
  EXPECT_EQ(Parsed(EventBody(episode, kTrigger, 1, Lookup, "", "")).data().summary(), whole);
  episode.finding.summary += std::string(476, 'x');
  const std::string cut = Parsed(EventBody(episode, kTrigger, 1, Lookup, "", "")).data().summary();
  EXPECT_EQ(std::count_if(cut.begin(), cut.end(), [](char c) { return (c & '\xc0') != '\x80'; }), 1024);
  EXPECT_TRUE(absl::EndsWith(cut, "\xe2\x80\xa6"));
  EXPECT_TRUE(absl::StartsWith(whole, cut.substr(0, cut.size() - 3)));
}

// --- Everything at once ---

// What one receiver saw of one episode.
struct Heard {
  std::vector<std::string> accepted_triggers;  // delivery ids, repeats left out
  std::vector<std::string> accepted_resolves;
  uint32_t last_sequence = 0;
};

enum class Mode { kUp, kRefuses, kAcceptsThenHangs, kHangs, kRejectsTriggers };

// The world with receivers that misbehave, and a server that dies anywhere.
class Storm {
 public:
  void Step(uint32_t choice) {
    const uint32_t arg = choice / 16;
    switch (choice % 16) {
      case 0:
      case 1:
        return ToggleFinding(arg);
      case 2:
        return OpenWindow(arg);
      case 3:
        return EndWindow(arg);
      case 4:
        mode_[arg % 2] = static_cast<Mode>(arg / 2 % 5);
        return;
      case 5:
        now_ += absl::Minutes(arg % 40);
        return;
      case 6:
        now_ += absl::Hours(arg % 2 == 0 ? 12 : -12);
        return;
      case 7:
        Reconcile(world_.Input(now_), now_);  // dies before the commit
        return;
      case 8:
        return Deliver(Death::kAfterBegin);
      case 9:
        return Deliver(Death::kAfterSend);
      case 10:
        return Deliver(Death::kEvaluatesMeanwhile);
      case 11:
        return ChangeSeverity(arg);
      case 12:
      case 13:
        return Evaluate();
      default:
        now_ += absl::Seconds(30);
        Evaluate();
        return Deliver(Death::kNone);
    }
  }

  // Receivers are up, windows end, and it runs until nothing is pending.
  void Settle() {
    mode_[0] = mode_[1] = Mode::kUp;
    for (MaintenanceWindow& window : world_.windows) window.ended_time = std::min(window.ended_time, now_);
    for (int i = 0; i < 50; ++i) {
      now_ += absl::Minutes(5);
      Evaluate();
      Deliver(Death::kNone);
    }
  }

  // Nobody was forgotten: each receiver accepted, or refused for good, a trigger of each open episode worth
  // telling.
  void CheckAllTold() {
    for (const auto& [id, episode] : world_.episodes()) {
      if (!episode.is_open() || episode.finding.severity == Severity::kInfo) continue;
      for (const std::string& receiver : world_.receivers)
        RC_ASSERT(!heard_[receiver + id].accepted_triggers.empty() || Rejected(receiver, id));
    }
  }

  void ClearFindings() { world_.findings.clear(); }

  void CheckAllClosed() {
    for (const auto& [id, episode] : world_.episodes()) {
      RC_ASSERT(!episode.is_open());
      for (const std::string& receiver : world_.receivers) {
        const Heard& heard = heard_[receiver + id];
        const bool told = !heard.accepted_triggers.empty();
        if (told) RC_ASSERT(heard.accepted_resolves.size() == 1u || GivenUp(receiver, id));
        if (attempted_.count(receiver + id) == 0) RC_ASSERT(heard.accepted_resolves.empty());
      }
    }
    for (const Delivery& row : world_.Rows()) RC_ASSERT(row.state != DeliveryState::kPending);
  }

 private:
  enum class Death { kNone, kAfterBegin, kAfterSend, kEvaluatesMeanwhile };

  void ToggleFinding(uint32_t arg) {
    const std::vector<std::vector<std::string>> subjects = {{"id-a"}, {"id-b"}, {"id-a", "id-c"}};
    const Finding finding = Slow(subjects[arg % 3], now_);
    std::vector<Finding>& held = world_.findings;
    const auto it =
        std::find_if(held.begin(), held.end(), [&](const Finding& f) { return f.Key() == finding.Key(); });
    it == held.end() ? held.push_back(finding) : static_cast<void>(held.erase(it));
  }

  void ChangeSeverity(uint32_t arg) {
    if (world_.findings.empty()) return;
    world_.findings[arg % world_.findings.size()].severity = static_cast<Severity>(1 + arg / 8 % 3);
  }

  void OpenWindow(uint32_t arg) {
    const std::vector<std::string> nodes = {"node-a", "node-b", "node-c"};
    world_.windows.push_back(WindowOn(absl::StrCat("mw-", world_.windows.size()), nodes[arg % 3], now_,
                                      now_ + absl::Minutes(1 + arg % 90)));
  }

  void EndWindow(uint32_t arg) {
    if (world_.windows.empty()) return;
    MaintenanceWindow& window = world_.windows[arg % world_.windows.size()];
    window.ended_time = std::min(window.ended_time, now_);
  }

  void Evaluate() {
    const EpisodeChanges changes = world_.Evaluate(now_);
    for (const Delivery& row : changes.deliveries) {
      const Episode& episode = world_.episodes().at(row.episode_id);
      if (row.action == kTrigger) RC_ASSERT(episode.muted_by.empty() && episode.is_open());
    }
    RC_ASSERT(world_.Input(now_).open_episodes.size() == world_.findings.size());
    std::set<std::string> open;
    for (const auto& [id, episode] : world_.episodes())
      if (episode.is_open()) RC_ASSERT(open.insert(episode.finding.Key()).second);
    RC_ASSERT(Reconcile(world_.Input(now_), now_).empty());  // done is done
  }

  void Deliver(Death death) {
    for (const Delivery& due : Due(world_.Rows(), now_)) {
      if (!world_.Update(BeginAttempt(due))) continue;
      const Episode& episode = world_.episodes().at(due.episode_id);
      if (due.action == kTrigger) RC_ASSERT(episode.muted_by.empty());
      if (death == Death::kAfterBegin) return;
      const AttemptResult result = Receive(due);
      if (death == Death::kAfterSend) return;
      if (death == Death::kEvaluatesMeanwhile) Evaluate();
      world_.Update(AfterAttempt(due, result, now_));
    }
  }

  AttemptResult Receive(const Delivery& due) {
    const Mode mode = mode_[due.receiver == "pager" ? 0 : 1];
    AttemptResult result;
    attempted_.insert(due.receiver + due.episode_id);
    if (mode == Mode::kUp || mode == Mode::kAcceptsThenHangs ||
        (mode == Mode::kRejectsTriggers && due.action == kResolve))
      Accept(due);
    switch (mode) {
      case Mode::kUp:
        result.status = 200;
        break;
      case Mode::kRefuses:
        result.status = 503;
        break;
      case Mode::kRejectsTriggers:
        result.status = due.action == kTrigger ? 422 : 200;
        break;
      case Mode::kAcceptsThenHangs:
      case Mode::kHangs:
        result.maybe_sent = true;
        break;
    }
    return result;
  }

  void Accept(const Delivery& due) {
    Heard& heard = heard_[due.receiver + due.episode_id];
    RC_ASSERT(due.sequence >= heard.last_sequence);
    heard.last_sequence = due.sequence;
    if (due.action == kTrigger) RC_ASSERT(heard.accepted_resolves.empty());
    auto& accepted = due.action == kTrigger ? heard.accepted_triggers : heard.accepted_resolves;
    if (std::find(accepted.begin(), accepted.end(), due.id) == accepted.end()) accepted.push_back(due.id);
  }

  bool Rejected(const std::string& receiver, const std::string& episode_id) const {
    const std::vector<Delivery> rows = world_.Rows();
    return std::any_of(rows.begin(), rows.end(), [&](const Delivery& row) {
      return row.receiver == receiver && row.episode_id == episode_id && row.state == DeliveryState::kDead;
    });
  }

  // Clock jumps and a receiver that fails on and on make a resolve old enough to be given up; a later jump
  // may make it look young again.
  bool GivenUp(const std::string& receiver, const std::string& episode_id) const {
    const std::vector<Delivery> rows = world_.Rows();
    return std::any_of(rows.begin(), rows.end(), [&](const Delivery& row) {
      return row.receiver == receiver && row.episode_id == episode_id && row.action == kResolve &&
             row.state == DeliveryState::kDead && row.attempts >= kGiveUpAttempts;
    });
  }

  World world_ = [] {
    World world;
    world.receivers = {"chat", "pager"};
    return world;
  }();
  absl::Time now_ = kTen;
  Mode mode_[2] = {Mode::kUp, Mode::kUp};
  std::map<std::string, Heard> heard_;  // by receiver + episode
  std::set<std::string> attempted_;
};

TEST(Episodes, NoInterleavingOfFaultsWindowsCrashesAndFailingReceiversBreaksThePromises) {
  EXPECT_TRUE(rc::check("storm", [] {
    const auto steps =
        *rc::gen::scale(4.0, rc::gen::container<std::vector<uint32_t>>(rc::gen::inRange(0u, 16u * 240u)));
    Storm storm;
    for (const uint32_t step : steps) storm.Step(step);
    storm.Settle();
    storm.CheckAllTold();
    storm.ClearFindings();
    storm.Settle();
    storm.CheckAllClosed();
  }));
}

}  // namespace
}  // namespace weft
