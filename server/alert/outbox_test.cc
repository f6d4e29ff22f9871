#include "server/alert/outbox.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <set>

#include "absl/strings/str_cat.h"

namespace weft {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1767225600);

Delivery Pending(std::string receiver, std::string episode, uint32_t sequence) {
  Delivery delivery;
  delivery.id = absl::StrCat("msg_", receiver, "-", episode, "-", sequence);
  delivery.receiver = std::move(receiver);
  delivery.episode_id = std::move(episode);
  delivery.sequence = sequence;
  delivery.create_time = kNow;
  delivery.not_before = kNow;
  return delivery;
}

AttemptResult Status(int status, std::string retry_after = "") {
  AttemptResult result;
  result.status = status;
  result.retry_after = std::move(retry_after);
  result.error = absl::StrCat("answered HTTP ", status);
  return result;
}

AttemptResult NoAnswer(bool maybe_sent) {
  AttemptResult result;
  result.maybe_sent = maybe_sent;
  result.error = "timeout";
  return result;
}

std::vector<std::string> Ids(const std::vector<Delivery>& deliveries) {
  std::vector<std::string> ids;
  for (const Delivery& delivery : deliveries) ids.push_back(delivery.id);
  return ids;
}

using List = std::vector<std::string>;

// --- Order ---

TEST(OutboxOrder, OnlyTheLowestSequenceOfALaneIsOffered) {
  EXPECT_EQ(Ids(Due({Pending("a", "e1", 2), Pending("a", "e1", 1)}, kNow)), List{"msg_a-e1-1"});
}

TEST(OutboxOrder, ALaneWaitsForItsFirstEvenIfTheSecondCouldGo) {
  Delivery first = Pending("a", "e1", 1);
  first.not_before = kNow + absl::Seconds(5);
  EXPECT_EQ(Ids(Due({first, Pending("a", "e1", 2)}, kNow)), List{});
  EXPECT_EQ(UntilDue({first, Pending("a", "e1", 2)}, kNow), absl::Seconds(5));
  EXPECT_EQ(Ids(Due({first, Pending("a", "e1", 2)}, kNow + absl::Seconds(5))), List{"msg_a-e1-1"});
}

TEST(OutboxOrder, LanesDoNotWaitForEachOther) {
  Delivery stuck = Pending("a", "e1", 1);
  stuck.not_before = kNow + absl::Minutes(15);
  EXPECT_EQ(Ids(Due({stuck, Pending("a", "e2", 1), Pending("b", "e1", 1)}, kNow)),
            (List{"msg_a-e2-1", "msg_b-e1-1"}));
}

TEST(OutboxOrder, ReceiversTakeTurns) {
  const std::vector<Delivery> pending = {Pending("a", "e1", 1), Pending("a", "e2", 1), Pending("a", "e3", 1),
                                         Pending("b", "e9", 1)};
  EXPECT_EQ(Ids(Due(pending, kNow)), (List{"msg_a-e1-1", "msg_b-e9-1", "msg_a-e2-1", "msg_a-e3-1"}));
}

TEST(OutboxOrder, FinishedRowsAreIgnored) {
  Delivery done = Pending("a", "e1", 1);
  done.state = DeliveryState::kDelivered;
  EXPECT_EQ(Ids(Due({done, Pending("a", "e1", 2)}, kNow)), List{"msg_a-e1-2"});
  EXPECT_EQ(UntilDue({done}, kNow), absl::InfiniteDuration());
}

TEST(OutboxOrder, AClockThatWentBackHalfADayHoldsNothingUp) {
  const Delivery failed = AfterAttempt(Pending("a", "e1", 1), NoAnswer(false), kNow + absl::Hours(12));
  EXPECT_EQ(Due({failed}, kNow).size(), 1u);
  EXPECT_EQ(UntilDue({failed}, kNow), absl::ZeroDuration());
}

// --- Attempts ---

TEST(OutboxAttempt, AcceptedIsDelivered) {
  for (const int status : {200, 202, 204}) {
    const Delivery after = AfterAttempt(Pending("a", "e1", 1), Status(status), kNow);
    EXPECT_EQ(after.state, DeliveryState::kDelivered);
    EXPECT_EQ(after.deliver_time, kNow);
    EXPECT_EQ(after.attempts, 1u);
    EXPECT_EQ(after.last_status, status);
    EXPECT_EQ(after.last_error, "");
  }
}

TEST(OutboxAttempt, ABodyThatWillNeverBeAcceptedIsDeadAndSoIsAReceiverThatIsGone) {
  for (const int status : {400, 413, 422, 410}) {
    const Delivery after = AfterAttempt(Pending("a", "e1", 1), Status(status), kNow);
    EXPECT_EQ(after.state, DeliveryState::kDead) << status;
    EXPECT_EQ(after.last_error, absl::StrCat("answered HTTP ", status));
  }
  EXPECT_EQ(Classify(Status(410)), AttemptClass::kGone);
}

TEST(OutboxAttempt, ConfigurationFaultsAreTriedEveryFifteenMinutes) {
  for (const int status : {401, 403, 404, 301, 302, 308, 405}) {
    const Delivery after = AfterAttempt(Pending("a", "e1", 1), Status(status), kNow);
    EXPECT_EQ(after.state, DeliveryState::kPending) << status;
    EXPECT_EQ(after.not_before, kNow + absl::Minutes(15)) << status;
  }
  AttemptResult denied;
  denied.denied = true;
  EXPECT_EQ(AfterAttempt(Pending("a", "e1", 1), denied, kNow).not_before, kNow + absl::Minutes(15));
}

TEST(OutboxAttempt, PassingFaultsClimbTheLadder) {
  for (const AttemptResult& result :
       {Status(408), Status(425), Status(429), Status(500), Status(503), NoAnswer(true)}) {
    Delivery delivery = Pending("a", "e1", 1);
    for (const int seconds : {1, 2, 5, 10, 20, 30, 60}) {
      delivery = AfterAttempt(delivery, result, kNow);
      EXPECT_EQ(delivery.state, DeliveryState::kPending);
      EXPECT_EQ(delivery.not_before, kNow + absl::Seconds(seconds));
    }
  }
}

TEST(OutboxAttempt, PastTheLadderItIsAMinuteGiveOrTakeAFifthAndSpread) {
  std::set<absl::Duration> seen;
  absl::Duration sum;
  for (uint32_t attempts = 8; attempts < 1008; ++attempts) {
    const absl::Duration delay = LadderDelay(attempts, "msg_1");
    EXPECT_GE(delay, absl::Seconds(48));
    EXPECT_LE(delay, absl::Seconds(72));
    seen.insert(delay);
    sum += delay;
  }
  EXPECT_GT(seen.size(), 900u);
  EXPECT_NEAR(absl::ToDoubleSeconds(sum / 1000), 60, 1);
}

TEST(OutboxAttempt, ItIsGivenUpAfterThreeDaysOfTrying) {
  Delivery delivery = Pending("a", "e1", 1);
  absl::Time now = kNow;
  while (delivery.state == DeliveryState::kPending && now < kNow + absl::Hours(100)) {
    now = std::max(now, delivery.not_before);
    delivery = AfterAttempt(delivery, Status(503), now);
  }
  EXPECT_EQ(delivery.state, DeliveryState::kDead);
  EXPECT_GE(now - kNow, absl::Hours(72));
  EXPECT_LE(now - kNow, absl::Hours(72) + absl::Minutes(2));
  EXPECT_GT(delivery.attempts, 3500u);
}

TEST(OutboxAttempt, AServerThatWasOffForDaysStillTries) {
  const Delivery after = AfterAttempt(Pending("a", "e1", 1), Status(503), kNow + absl::Hours(24 * 10));
  EXPECT_EQ(after.state, DeliveryState::kPending);
}

TEST(OutboxAttempt, ErrorsAreCutAndCleaned) {
  AttemptResult result = NoAnswer(false);
  result.error = std::string(10000, 'x') + "\xff";
  EXPECT_LE(AfterAttempt(Pending("a", "e1", 1), result, kNow).last_error.size(), 512u);
}

// --- Unknown outcomes ---

TEST(OutboxOutcome, IsUnknownAfterNoAnswerOrAGatewaysAndKnownAfterARefusal) {
  EXPECT_TRUE(AfterAttempt(Pending("a", "e", 1), NoAnswer(true), kNow).outcome_unknown);
  EXPECT_TRUE(AfterAttempt(Pending("a", "e", 1), Status(502), kNow).outcome_unknown);
  EXPECT_TRUE(AfterAttempt(Pending("a", "e", 1), Status(504), kNow).outcome_unknown);
  EXPECT_FALSE(AfterAttempt(Pending("a", "e", 1), NoAnswer(false), kNow).outcome_unknown);
  EXPECT_FALSE(AfterAttempt(Pending("a", "e", 1), Status(503), kNow).outcome_unknown);
  EXPECT_FALSE(AfterAttempt(Pending("a", "e", 1), Status(429), kNow).outcome_unknown);
}

TEST(OutboxOutcome, OnceUnknownItStaysSo) {
  const Delivery unknown = AfterAttempt(Pending("a", "e", 1), NoAnswer(true), kNow);
  EXPECT_TRUE(AfterAttempt(unknown, Status(503), kNow).outcome_unknown);
}

TEST(OutboxOutcome, ARowWhoseAttemptNeverCameBackSaysUnknown) {
  const Delivery begun = BeginAttempt(Pending("a", "e", 1));
  EXPECT_TRUE(begun.outcome_unknown);
  EXPECT_EQ(begun.attempts, 1u);
  EXPECT_EQ(begun.state, DeliveryState::kPending);
  EXPECT_EQ(AfterAttempt(Pending("a", "e", 1), Status(503), kNow).attempts, 1u);
}

// --- Retry-After ---

TEST(OutboxRetryAfter, IsReadInAllItsForms) {
  const absl::Time now = absl::FromUnixSeconds(784111777) - absl::Seconds(7);  // 1994-11-06T08:49:37Z
  EXPECT_EQ(ParseRetryAfter("7", now), absl::Seconds(7));
  EXPECT_EQ(ParseRetryAfter(" 0 ", now), absl::ZeroDuration());
  EXPECT_EQ(ParseRetryAfter("Sun, 06 Nov 1994 08:49:37 GMT", now), absl::Seconds(7));
  EXPECT_EQ(ParseRetryAfter("Sunday, 06-Nov-94 08:49:37 GMT", now), absl::Seconds(7));
  EXPECT_EQ(ParseRetryAfter("Sun Nov  6 08:49:37 1994", now), absl::Seconds(7));
  EXPECT_EQ(ParseRetryAfter("Sun, 06 Nov 1994 08:49:37 GMT", now + absl::Hours(1)), absl::ZeroDuration());
}

TEST(OutboxRetryAfter, IsCappedAtAnHour) {
  EXPECT_EQ(ParseRetryAfter("999999", kNow), absl::Hours(1));
  EXPECT_EQ(ParseRetryAfter("99999999999999999999999999", kNow), absl::Hours(1));
  EXPECT_EQ(ParseRetryAfter("Sun, 06 Nov 2094 08:49:37 GMT", kNow), absl::Hours(1));
}

TEST(OutboxRetryAfter, NonsenseCountsAsAbsent) {
  for (const char* header : {"", "soon", "-5", "1.5", "7 apples", "Sun, 99 Nov 1994 08:49:37 GMT"})
    EXPECT_EQ(ParseRetryAfter(header, kNow), std::nullopt) << header;
  EXPECT_EQ(AfterAttempt(Pending("a", "e", 1), Status(429, "soon"), kNow).not_before,
            kNow + absl::Seconds(1));
}

TEST(OutboxRetryAfter, PutsTheNextAttemptOffButNeverForward) {
  EXPECT_EQ(AfterAttempt(Pending("a", "e", 1), Status(429, "7"), kNow).not_before, kNow + absl::Seconds(7));
  EXPECT_EQ(AfterAttempt(Pending("a", "e", 1), Status(503, "0"), kNow).not_before, kNow + absl::Seconds(1));
  EXPECT_EQ(AfterAttempt(Pending("a", "e", 1), Status(403, "7"), kNow).not_before, kNow + absl::Minutes(15));
  EXPECT_EQ(AfterAttempt(Pending("a", "e", 1), Status(429, "999999"), kNow).not_before,
            kNow + absl::Hours(1));
}

TEST(OutboxRetryAfter, AnHourIsWaitedInFull) {
  const Delivery after = AfterAttempt(Pending("a", "e", 1), Status(429, "3600"), kNow);
  EXPECT_TRUE(Due({after}, kNow + absl::Minutes(59)).empty());
  EXPECT_EQ(Due({after}, kNow + absl::Hours(1)).size(), 1u);
}

// --- All together ---

TEST(OutboxOrder, EachReceiverSeesRisingSequencesWhateverFails) {
  EXPECT_TRUE(rc::check("lanes", [] {
    std::vector<Delivery> rows;
    for (const char* receiver : {"a", "b"})
      for (const char* episode : {"e1", "e2", "e3"})
        for (uint32_t sequence = 1; sequence <= 3; ++sequence)
          rows.push_back(Pending(receiver, episode, sequence));
    std::map<std::string, uint32_t> last;
    absl::Time now = kNow;
    for (int step = 0; step < 400; ++step) {
      const absl::Duration wait = UntilDue(rows, now);
      if (wait == absl::InfiniteDuration()) break;
      now += wait;
      const std::vector<Delivery> due = Due(rows, now);
      RC_ASSERT(!due.empty());
      for (const Delivery& delivery : due) {
        uint32_t& seen = last[delivery.receiver + delivery.episode_id];
        RC_ASSERT(delivery.sequence >= seen);
        seen = delivery.sequence;
        const AttemptResult result = *rc::gen::element(Status(200), Status(503), NoAnswer(true), Status(422));
        for (Delivery& row : rows)
          if (row.id == delivery.id) row = AfterAttempt(row, result, now);
      }
    }
    for (const Delivery& row : rows) RC_ASSERT(row.state != DeliveryState::kPending);
  }));
}

}  // namespace
}  // namespace weft
