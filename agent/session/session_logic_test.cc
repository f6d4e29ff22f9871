#include "agent/session/session_logic.h"

#include "agent/session/reconnect.h"
#include "convert/convert.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kNow = absl::Hours(7);

v1::ConnectResponse MakeWelcome() {
  v1::ConnectResponse message;
  ToProto(absl::Seconds(10), message.mutable_welcome()->mutable_heartbeat_interval());
  ToProto(absl::Seconds(3), message.mutable_welcome()->mutable_reconnect_spread());
  return message;
}

v1::ConnectResponse MakeLease(const std::string& run_id, uint32_t rank = 0) {
  v1::ConnectResponse message;
  v1::Lease& lease = *message.mutable_lease();
  lease.set_run_id(run_id);
  lease.mutable_spec()->set_name("fabric_write");
  lease.mutable_spec()->mutable_fabric();
  lease.set_rank(rank);
  lease.set_world_size(2);
  ToProto(absl::Seconds(5), lease.mutable_start_within());
  ToProto(absl::Seconds(30), lease.mutable_deadline());
  return message;
}

v1::ConnectResponse MakeStart(const std::string& run_id, const std::string& rendezvous = "") {
  v1::ConnectResponse message;
  message.mutable_start()->set_run_id(run_id);
  message.mutable_start()->set_rendezvous(rendezvous);
  return message;
}

v1::ConnectResponse MakeCancel(const std::string& run_id) {
  v1::ConnectResponse message;
  message.mutable_cancel()->set_run_id(run_id);
  return message;
}

class SessionLogicTest : public ::testing::Test {
 protected:
  SessionLogicTest() { logic_.OnMessage(MakeWelcome(), kNow); }

  // The only action, of type T.
  template <typename T>
  T Only(const SessionActions& actions) {
    EXPECT_THAT(actions, SizeIs(1));
    if (actions.size() != 1 || !std::holds_alternative<T>(actions[0])) {
      ADD_FAILURE() << "not the expected action";
      return {};
    }
    return std::get<T>(actions[0]);
  }
  v1::LeaseReply Reply(const v1::ConnectResponse& message, absl::Duration now = kNow) {
    return Only<v1::ConnectRequest>(logic_.OnMessage(message, now)).lease_reply();
  }
  void Run(const std::string& run_id) {
    EXPECT_TRUE(Reply(MakeLease(run_id)).accepted());
    Only<StartRun>(logic_.OnMessage(MakeStart(run_id), kNow));
  }

  SessionLogic logic_{{}};
};

TEST_F(SessionLogicTest, NothingCountsBeforeTheWelcome) {
  SessionLogic fresh({});
  EXPECT_THAT(fresh.OnMessage(MakeLease("a"), kNow), IsEmpty());
  EXPECT_FALSE(fresh.MaySendBatch());
  EXPECT_EQ(fresh.reconnect_spread(), std::nullopt);
  EXPECT_EQ(logic_.reconnect_spread(), absl::Seconds(3));
}

v1::ConnectResponse MakeGpuLease(const std::string& run_id) {
  v1::ConnectResponse message = MakeLease(run_id);
  message.mutable_lease()->mutable_spec()->mutable_fabric()->set_gpu_memory(true);
  return message;
}

TEST_F(SessionLogicTest, GpuProbesAreLeasedOnlyWhileTheGpusAreIdle) {
  absl::Status idle = absl::UnavailableError("process 7 computes on GPU 0000:19:00.0");
  SessionLogic logic({.check_idle = [&] { return idle; }});
  logic.OnMessage(MakeWelcome(), kNow);
  const auto reply = [&](const v1::ConnectResponse& message) {
    return Only<v1::ConnectRequest>(logic.OnMessage(message, kNow)).lease_reply();
  };
  EXPECT_EQ(reply(MakeGpuLease("a")).outcome(), v1::OUTCOME_SKIPPED_BUSY);
  EXPECT_THAT(reply(MakeGpuLease("a")).detail(), HasSubstr("process 7"));
  idle = absl::FailedPreconditionError("NVML is not here");
  EXPECT_EQ(reply(MakeGpuLease("a")).outcome(), v1::OUTCOME_REFUSED);
  idle = absl::OkStatus();
  EXPECT_TRUE(reply(MakeGpuLease("a")).accepted());
}

TEST_F(SessionLogicTest, WhereNobodyWatchesTheGpusTheirProbesAreRefusedAndOthersAreNot) {
  const v1::LeaseReply reply = Reply(MakeGpuLease("a"));
  EXPECT_EQ(reply.outcome(), v1::OUTCOME_REFUSED);
  EXPECT_THAT(reply.detail(), HasSubstr("does not watch GPUs"));
  EXPECT_TRUE(Reply(MakeLease("b")).accepted());
}

TEST_F(SessionLogicTest, HeartbeatsComeAtOnceAndThenAsTold) {
  Only<SendHeartbeat>(logic_.OnTick(kNow));
  EXPECT_THAT(logic_.OnTick(kNow + absl::Seconds(9)), IsEmpty());
  EXPECT_EQ(logic_.NextDue(), kNow + absl::Seconds(10));
  Only<SendHeartbeat>(logic_.OnTick(kNow + absl::Seconds(10)));
}

TEST_F(SessionLogicTest, AnAbsurdHeartbeatIntervalIsBounded) {
  v1::ConnectResponse welcome = MakeWelcome();
  ToProto(absl::Nanoseconds(1), welcome.mutable_welcome()->mutable_heartbeat_interval());
  logic_.OnMessage(welcome, kNow);
  logic_.OnTick(kNow);
  EXPECT_GE(logic_.NextDue(), kNow + absl::Milliseconds(100));
}

TEST_F(SessionLogicTest, ALeaseThenAStartIsARunWithTheLeasesBounds) {
  EXPECT_TRUE(Reply(MakeLease("a", 1)).accepted());
  const StartRun start = Only<StartRun>(logic_.OnMessage(MakeStart("a", "address"), kNow));
  EXPECT_EQ(start.request.run_id(), "a");
  EXPECT_EQ(start.request.rank(), 1u);
  EXPECT_EQ(start.request.world_size(), 2u);
  EXPECT_EQ(start.request.rendezvous(), "address");
  EXPECT_EQ(FromProto(start.request.deadline()), absl::Seconds(30));
}

TEST_F(SessionLogicTest, AnUnknownKindIsRefused) {
  v1::ConnectResponse lease = MakeLease("a");
  lease.mutable_lease()->mutable_spec()->clear_kind();
  const v1::LeaseReply reply = Reply(lease);
  EXPECT_FALSE(reply.accepted());
  EXPECT_EQ(reply.outcome(), v1::OUTCOME_REFUSED);
  EXPECT_NE(reply.detail(), "");
}

TEST_F(SessionLogicTest, ParametersOutOfBoundsAreRefused) {
  v1::ConnectResponse window = MakeLease("a");
  window.mutable_lease()->mutable_spec()->mutable_fabric()->set_window(100'000);
  EXPECT_EQ(Reply(window).outcome(), v1::OUTCOME_REFUSED);
  v1::ConnectResponse deadline = MakeLease("a");
  ToProto(absl::Hours(100), deadline.mutable_lease()->mutable_deadline());
  EXPECT_EQ(Reply(deadline).outcome(), v1::OUTCOME_REFUSED);
  v1::ConnectResponse rank = MakeLease("a", 2);
  EXPECT_EQ(Reply(rank).outcome(), v1::OUTCOME_REFUSED);
  EXPECT_EQ(Reply(MakeLease("")).outcome(), v1::OUTCOME_REFUSED);
  EXPECT_EQ(Reply(MakeLease("a\nb")).outcome(), v1::OUTCOME_REFUSED);
  v1::ConnectResponse start = MakeLease("a");
  start.mutable_lease()->clear_start_within();
  EXPECT_EQ(Reply(start).outcome(), v1::OUTCOME_REFUSED);
}

TEST_F(SessionLogicTest, ALeasedNodeIsBusyUntilTheLeaseIsVoid) {
  EXPECT_TRUE(Reply(MakeLease("a")).accepted());
  EXPECT_EQ(Reply(MakeLease("b"), kNow + absl::Seconds(4)).outcome(), v1::OUTCOME_SKIPPED_BUSY);
  EXPECT_TRUE(Reply(MakeLease("a"), kNow + absl::Seconds(4)).accepted()) << "the same lease again";
  EXPECT_TRUE(Reply(MakeLease("b"), kNow + absl::Seconds(5)).accepted());
}

TEST_F(SessionLogicTest, ANodeThatRunsIsBusyUntilTheRunEnds) {
  Run("a");
  EXPECT_EQ(Reply(MakeLease("b"), kNow + absl::Minutes(5)).outcome(), v1::OUTCOME_SKIPPED_BUSY);
  logic_.OnRunEnded("a");
  EXPECT_TRUE(Reply(MakeLease("b"), kNow + absl::Minutes(5)).accepted());
}

TEST_F(SessionLogicTest, AStartAfterStartWithinIsRefusedAndRunsNothing) {
  EXPECT_TRUE(Reply(MakeLease("a")).accepted());
  const v1::LeaseReply reply = Reply(MakeStart("a"), kNow + absl::Seconds(5));
  EXPECT_FALSE(reply.accepted());
  EXPECT_EQ(reply.outcome(), v1::OUTCOME_REFUSED);
}

TEST_F(SessionLogicTest, AStartWithoutALeaseRunsNothing) {
  EXPECT_EQ(Reply(MakeStart("never leased")).outcome(), v1::OUTCOME_REFUSED);
}

TEST_F(SessionLogicTest, AStartTwiceRunsOnce) {
  Run("a");
  EXPECT_THAT(logic_.OnMessage(MakeStart("a"), kNow), IsEmpty());
}

TEST_F(SessionLogicTest, ACancelForgetsALeaseAndKillsARun) {
  EXPECT_TRUE(Reply(MakeLease("a")).accepted());
  EXPECT_THAT(logic_.OnMessage(MakeCancel("a"), kNow), IsEmpty());
  Run("b");
  EXPECT_THAT(logic_.OnMessage(MakeCancel("another"), kNow), IsEmpty());
  EXPECT_EQ(Only<KillRun>(logic_.OnMessage(MakeCancel("b"), kNow)).run_id, "b");
}

TEST_F(SessionLogicTest, ARendezvousWaitsForAStreamAndDiesWithItsRun) {
  Run("a");
  logic_.OnDisconnected();
  EXPECT_THAT(logic_.OnRendezvous("a", "address"), IsEmpty());
  const v1::Rendezvous sent = Only<v1::ConnectRequest>(logic_.OnMessage(MakeWelcome(), kNow)).rendezvous();
  EXPECT_EQ(sent.run_id(), "a");
  EXPECT_EQ(sent.rendezvous(), "address");
  logic_.OnDisconnected();
  logic_.OnRendezvous("a", "address");
  logic_.OnRunEnded("a");
  EXPECT_THAT(logic_.OnMessage(MakeWelcome(), kNow), IsEmpty());
  EXPECT_THAT(logic_.OnRendezvous("a", "late"), IsEmpty());
}

TEST_F(SessionLogicTest, ARunGoesOnThroughALostStream) {
  Run("a");
  logic_.OnDisconnected();
  logic_.OnMessage(MakeWelcome(), kNow);
  EXPECT_EQ(Reply(MakeLease("b")).outcome(), v1::OUTCOME_SKIPPED_BUSY);
  Only<KillRun>(logic_.OnMessage(MakeCancel("a"), kNow));
}

TEST_F(SessionLogicTest, OneBatchAtATimeUntilAllOfItIsJudged) {
  EXPECT_TRUE(logic_.MaySendBatch());
  logic_.OnBatchSent({{1, "a"}, {2, "b"}}, kNow);
  EXPECT_FALSE(logic_.MaySendBatch());
  v1::ConnectResponse ack;
  ack.mutable_ack()->set_epoch("e");
  ack.mutable_ack()->add_stored(1);
  EXPECT_THAT(Only<JudgedRecords>(logic_.OnMessage(ack, kNow)).stored, ElementsAre(1));
  EXPECT_FALSE(logic_.MaySendBatch());
  v1::ConnectResponse rejected;
  v1::Rejection& rejection = *rejected.mutable_ack()->add_rejected();
  rejection.set_sequence(2);
  rejection.set_reason(v1::REJECT_REASON_BAD_NUMBER);
  const JudgedRecords judged = Only<JudgedRecords>(logic_.OnMessage(rejected, kNow));
  ASSERT_THAT(judged.rejected, SizeIs(1));
  EXPECT_EQ(judged.rejected[0].sequence, 2u);
  EXPECT_THAT(judged.rejected[0].reason, HasSubstr("BAD_NUMBER"));
  EXPECT_TRUE(logic_.MaySendBatch());
}

TEST_F(SessionLogicTest, ABatchWhoseAckNeverComesIsSentAgain) {
  logic_.OnTick(kNow);
  logic_.OnBatchSent({{1, "a"}}, kNow);
  Only<SendHeartbeat>(logic_.OnTick(kNow + absl::Seconds(29)));
  bool returned = false;
  for (const SessionAction& action : logic_.OnTick(kNow + absl::Seconds(30)))
    returned |= std::holds_alternative<ReturnOffered>(action);
  EXPECT_TRUE(returned);
  EXPECT_TRUE(logic_.MaySendBatch());
}

TEST(ReconnectWaitsTest, AServerThatWasAwayForLongHasItsAgentsBackWithinTwoSpreads) {
  ReconnectWaits waits({.spread = absl::Seconds(5), .seed = 1});
  EXPECT_LE(waits.Next(), absl::Seconds(5));
  absl::Duration longest;
  for (int i = 0; i < 1000; ++i) {
    const absl::Duration wait = waits.Next();
    EXPECT_GE(wait, absl::ZeroDuration());
    EXPECT_LE(wait, absl::Seconds(10));
    longest = std::max(longest, wait);
  }
  EXPECT_GT(longest, absl::Seconds(9)) << "the jitter uses all of the two spreads";
  waits.OnWelcome(absl::Seconds(1));
  EXPECT_LE(waits.Next(), absl::Seconds(1));
}

TEST(ReconnectWaitsTest, ASpreadOfZeroIsNoTightLoop) {
  ReconnectWaits waits({.spread = absl::ZeroDuration(), .seed = 1});
  absl::Duration total;
  for (int i = 0; i < 100; ++i) total += waits.Next();
  EXPECT_GT(total, absl::Seconds(1));
}

TEST(ReconnectWaitsTest, TwoAgentsDoNotComeBackTogether) {
  ReconnectWaits one({.seed = 1});
  ReconnectWaits other({.seed = 2});
  EXPECT_NE(one.Next(), other.Next());
}

}  // namespace
}  // namespace weft
