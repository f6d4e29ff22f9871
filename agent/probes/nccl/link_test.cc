// Hub and spoke over loopback, with strangers in between.
#include "agent/probes/nccl/link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "agent/probes/process/ticks.h"

namespace weft::nccl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

v1::NcclHello Hello(uint32_t participant) {
  v1::NcclHello hello;
  hello.set_participant(participant);
  hello.set_world_size(2);
  hello.set_gpus(1);
  return hello;
}

std::unique_ptr<Hub> OpenHub() {
  auto hub = Hub::Open({.roster = {.world_size = 2,
                                   .parameters = MakeParameters(v1::NcclProbe()),
                                   .unique_ids = {"id"},
                                   .verdict_by = NowTicks() + 60 * kSecond},
                        .own = Hello(0)},
                       NowTicks());
  EXPECT_TRUE(hub.ok()) << hub.status();
  return *std::move(hub);
}

std::unique_ptr<Spoke> OpenSpoke(const std::string& offer, int64_t patience = 60 * kSecond) {
  auto spoke = Spoke::Open(offer, Hello(1), NowTicks() + patience);
  EXPECT_TRUE(spoke.ok()) << spoke.status();
  return *std::move(spoke);
}

// Turns both until one is told something; false after ten seconds.
bool TurnUntilTold(Hub* hub, Spoke* spoke, std::vector<v1::NcclControl>* told) {
  for (const int64_t end = NowTicks() + 10 * kSecond; NowTicks() < end;) {
    if (hub != nullptr) hub->Turn(NowTicks());
    *told = spoke->Turn(NowTicks());
    if (!told->empty()) return true;
    std::vector<pollfd> fds = spoke->PollFds();
    poll(fds.data(), fds.size(), 5);
  }
  return false;
}

TEST(Link, OfferFitsIntoARendezvousAndLeadsToTheHub) {
  const auto hub = OpenHub();
  EXPECT_LE(hub->offer().size(), 4096U);
  const auto spoke = OpenSpoke(hub->offer());
  std::vector<v1::NcclControl> told;
  ASSERT_TRUE(TurnUntilTold(hub.get(), spoke.get(), &told));
  EXPECT_THAT(told[0].welcome().gpus(), ElementsAre(1U, 1U));
}

TEST(Link, HubThatEndsIsNamed) {
  auto hub = OpenHub();
  const auto spoke = OpenSpoke(hub->offer());
  std::vector<v1::NcclControl> told;
  ASSERT_TRUE(TurnUntilTold(hub.get(), spoke.get(), &told));
  hub.reset();
  ASSERT_TRUE(TurnUntilTold(nullptr, spoke.get(), &told));
  EXPECT_EQ(told[0].verdict().outcome(), v1::OUTCOME_FAILED);
  EXPECT_THAT(told[0].verdict().missing_ranks(), ElementsAre(0U));
}

TEST(Link, HubThatCannotBeReachedIsMissing) {
  std::string offer;
  {
    const auto hub = OpenHub();
    offer = hub->offer();
  }
  const auto spoke = OpenSpoke(offer, kSecond / 2);
  std::vector<v1::NcclControl> told;
  ASSERT_TRUE(TurnUntilTold(nullptr, spoke.get(), &told));
  EXPECT_EQ(told[0].verdict().outcome(), v1::OUTCOME_PARTNER_MISSING);
  EXPECT_THAT(told[0].verdict().missing_ranks(), ElementsAre(0U));
}

TEST(Link, StrangersWithoutTheSessionAndGarbageAreTurnedAwayUnheard) {
  const auto hub = OpenHub();
  v1::NcclOffer offer;
  ASSERT_TRUE(offer.ParseFromString(hub->offer()));
  std::vector<Connection> strangers;
  for (int i = 0; i < 3; ++i) {
    auto connection = Connect(offer.addresses(0));
    ASSERT_TRUE(connection.ok()) << connection.status();
    strangers.push_back(*std::move(connection));
  }
  for (int i = 0; i < 100 && !std::all_of(strangers.begin(), strangers.end(),
                                          [](Connection& c) { return c.CheckConnected(); });
       ++i)
    poll(nullptr, 0, 10);
  v1::NcclControl wrong_session;
  *wrong_session.mutable_hello() = Hello(1);
  wrong_session.mutable_hello()->set_session(std::string(kSessionBytes, 'x'));
  strangers[0].Send(wrong_session);
  const std::string garbage(2000, '\xff');
  EXPECT_GT(send(strangers[1].fd(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
  // The third says nothing.
  const auto spoke = OpenSpoke(hub->offer());
  std::vector<v1::NcclControl> told;
  ASSERT_TRUE(TurnUntilTold(hub.get(), spoke.get(), &told));
  EXPECT_TRUE(told[0].has_welcome());
  for (int i = 0; i < 100 && !(strangers[0].ended() && strangers[1].ended()); ++i) {
    hub->Turn(NowTicks());
    EXPECT_THAT(strangers[0].Receive(1000), IsEmpty());
    EXPECT_THAT(strangers[1].Receive(1000), IsEmpty());
    poll(nullptr, 0, 10);
  }
  EXPECT_TRUE(strangers[0].ended());
  EXPECT_TRUE(strangers[1].ended());
}

TEST(Link, MalformedRendezvousIsRefused) {
  v1::NcclOffer offer;
  offer.set_protocol(1);
  offer.set_session(std::string(kSessionBytes, 's'));
  const auto refusal = [](const v1::NcclOffer& o) {
    return std::string(Spoke::Open(o.SerializeAsString(), Hello(1), 0).status().message());
  };
  EXPECT_THAT(refusal(offer), HasSubstr("no address"));
  offer.add_addresses("10.0.0.1:1");
  EXPECT_EQ(refusal(offer), "");
  offer.set_protocol(2);
  EXPECT_THAT(refusal(offer), HasSubstr("version 2"));
  offer.set_session("short");
  EXPECT_THAT(refusal(offer), HasSubstr("malformed"));
  EXPECT_FALSE(Spoke::Open("\xff\xff", Hello(1), 0).ok());
}

TEST(Connect, TakesNumericAddressesAlone) {
  for (const char* address :
       {"", "x", "host:1", "10.0.0.1", "10.0.0.1:0", "10.0.0.1:65536", "::1:5", "[::1]", "[x]:5"})
    EXPECT_FALSE(Connect(address).ok()) << address;
}

TEST(OwnAddresses, CarryThePortAndAreNotEmpty) {
  EXPECT_THAT(OwnAddresses(1234), Not(IsEmpty()));
  for (const std::string& address : OwnAddresses(1234)) EXPECT_THAT(address, ::testing::EndsWith(":1234"));
}

}  // namespace
}  // namespace weft::nccl
