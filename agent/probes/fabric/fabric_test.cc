// The parts that need no provider.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstring>
#include <random>
#include <vector>

#include "agent/probes/fabric/control_message.h"
#include "agent/probes/fabric/distribution.h"
#include "agent/probes/fabric/offer.h"
#include "agent/probes/fabric/parameters.h"
#include "agent/probes/fabric/pattern.h"
#include "agent/probes/fabric/token_bucket.h"
#include "agent/probes/process/ticks.h"

namespace weft::fabric {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What `messages` writes of one transfer leave at the target.
std::vector<uint8_t> Transferred(uint64_t message_bytes, uint64_t slots, uint64_t messages, uint64_t seed) {
  std::vector<uint8_t> region(slots * message_bytes, 0xA5);
  for (uint64_t m = 0; m < messages; ++m) {
    const absl::Span<uint8_t> slot(region.data() + m % slots * message_bytes, message_bytes);
    FillSlot(slot, seed, m % slots);
    StampMessage(slot, seed, m);
  }
  return region;
}

TEST(Pattern, WholeTransferPassesTheCheck) {
  EXPECT_TRUE(rc::check([] {
    const auto bytes = *rc::gen::elementOf(
        std::vector<uint64_t>{1, 7, 8, 9, 15, 16, 4096, 65535, 65536, 65543, 65544, 200000});
    const auto slots = *rc::gen::inRange<uint64_t>(1, 5);
    const auto messages = *rc::gen::inRange<uint64_t>(1, 12);
    const auto region = Transferred(bytes, slots, messages, 5);
    RC_ASSERT(!CheckRegion(region, bytes, slots, messages, 5));
  }));
}

TEST(Pattern, AnyFlippedBitIsFoundWhereItIs) {
  EXPECT_TRUE(rc::check([] {
    const auto bytes = *rc::gen::elementOf(std::vector<uint64_t>{1, 8, 9, 4096, 65536, 65540, 65544, 131080});
    auto region = Transferred(bytes, 3, 7, 9);
    const auto at = *rc::gen::inRange<uint64_t>(0, region.size());
    region[at] = static_cast<uint8_t>(region[at] ^ (1 << *rc::gen::inRange(0, 8)));
    const auto bad = CheckRegion(region, bytes, 3, 7, 9);
    RC_ASSERT(bad.has_value());
    RC_ASSERT(bad->slot * bytes + bad->offset == at);
  }));
}

TEST(Pattern, LostLastMessageIsFound) {
  const auto region = Transferred(1 << 20, 4, 9, 3);
  EXPECT_FALSE(CheckRegion(region, 1 << 20, 4, 9, 3));
  const auto bad = CheckRegion(region, 1 << 20, 4, 10, 3);
  ASSERT_TRUE(bad.has_value());
  EXPECT_EQ(bad->slot, 1U);
}

TEST(Pattern, ContentsOfTheWarmUpOrOfAnotherSlotDoNotPass) {
  auto region = Transferred(4096, 2, 2, 3);
  EXPECT_TRUE(CheckRegion(region, 4096, 2, 2, 4).has_value());
  std::swap_ranges(region.begin(), region.begin() + 4096, region.begin() + 4096);
  EXPECT_TRUE(CheckRegion(region, 4096, 2, 2, 3).has_value());
}

TEST(Pattern, HalfWrittenMessageIsFound) {
  auto region = Transferred(1 << 20, 1, 1, 3);
  std::memset(region.data() + 500000, 0xA5, 100);
  const auto bad = CheckRegion(region, 1 << 20, 1, 1, 3);
  ASSERT_TRUE(bad.has_value());
  EXPECT_EQ(bad->offset, 500000U);
}

// Sends messages as the writer does, with a sender that is held up at random; the rate in bytes per second.
double PacedRate(double rate, uint64_t bytes, uint64_t messages, uint32_t seed) {
  std::mt19937 random(seed);
  int64_t now = 0;
  TokenBucket bucket(rate, std::max(rate * 0.05, static_cast<double>(bytes)), now);
  for (uint64_t i = 0; i < messages; ++i) {
    while (!bucket.TryTake(bytes, now))
      now += bucket.WaitFor(bytes, now) + std::uniform_int_distribution<int64_t>(0, kMillisecond)(random);
  }
  return static_cast<double>(bytes * messages) / (static_cast<double>(now) / 1e9);
}

TEST(TokenBucket, RateIsHonouredWithinOnePercentAndNeverExceeded) {
  for (const double rate : {1e6, 12.5e6, 125e6, 1.25e9})
    for (const uint64_t bytes : {uint64_t{4096}, uint64_t{1} << 20}) {
      const double paced = PacedRate(rate, bytes, 64 * (1 << 20) / bytes, 7);
      EXPECT_LE(paced, rate * 1.0001) << rate << " " << bytes;
      EXPECT_GE(paced, rate * 0.98) << rate << " " << bytes;
    }
}

TEST(TokenBucket, SenderThatWasHeldUpCatchesUpOnlyToTheDepth) {
  TokenBucket bucket(1e9, 1000, 0);
  EXPECT_FALSE(bucket.TryTake(1, 0));
  EXPECT_TRUE(bucket.TryTake(1000, kSecond));
  EXPECT_FALSE(bucket.TryTake(1, kSecond));
  EXPECT_EQ(bucket.WaitFor(500, kSecond), 500);
}

TEST(TokenBucket, MessageAboveTheDepthPassesAndIsOwed) {
  TokenBucket bucket(1e9, 100, 0);
  EXPECT_EQ(bucket.WaitFor(1000, 0), 100);
  EXPECT_TRUE(bucket.TryTake(1000, 100));
  EXPECT_EQ(bucket.WaitFor(1000, 100), 1000);
}

TEST(Distribution, PercentilesAreNearestRank) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  const v1::Distribution d = Summarize(values);
  EXPECT_EQ(d.min(), 1);
  EXPECT_EQ(d.p10(), 10);
  EXPECT_EQ(d.p50(), 50);
  EXPECT_EQ(d.p90(), 90);
  EXPECT_EQ(d.p99(), 99);
  EXPECT_EQ(d.max(), 100);
  EXPECT_EQ(d.count(), 100U);
  EXPECT_EQ(Summarize({}).count(), 0U);
  EXPECT_EQ(Summarize({4.0}).p10(), 4.0);
}

TEST(BlockTimes, SteadyLinkGivesItsRateInEveryBlock) {
  BlockTimes times(64, 1000);
  for (int i = 1; i <= 64; ++i) times.OnComplete(100 + i * 1000);
  const std::vector<double> rates = times.Rates(100);
  EXPECT_EQ(rates.size(), 16U);
  for (const double rate : rates) EXPECT_DOUBLE_EQ(rate, 1e9);
}

TEST(BlockTimes, BurstOfLateCompletionsIsNoFastBlock) {
  BlockTimes times(64, 1000);
  // Seen in four lumps, as by a poller that sleeps most of the time.
  for (int i = 0; i < 64; ++i) times.OnComplete((i / 16 + 1) * 16000 + i % 16);
  for (const double rate : times.Rates(0)) EXPECT_LE(rate, 2.1e9);
}

TEST(BlockTimes, MillionMessagesNeedLittleMemory) {
  BlockTimes times(1000000, 8);
  for (int i = 1; i <= 1000000; ++i) times.OnComplete(i);
  EXPECT_EQ(times.Rates(0).size(), 1000000U / 32);
}

TEST(Parameters, DefaultsAreAMebibyteAndAWindowOf64) {
  const Parameters p = MakeParameters({});
  ASSERT_EQ(p.transfers.size(), 1U);
  EXPECT_EQ(p.transfers[0].message_bytes, 1U << 20);
  EXPECT_EQ(p.transfers[0].slots, 64U);
  EXPECT_EQ(p.transfers[0].messages, 64U);
  EXPECT_EQ(p.latency_iterations, 1000U);
}

TEST(Parameters, MemoryIsBoundedWhateverIsAsked) {
  EXPECT_TRUE(rc::check([] {
    v1::FabricProbe probe;
    probe.add_message_size_bytes(*rc::gen::inRange<uint64_t>(1, (64 << 20) + 1));
    probe.set_window(*rc::gen::inRange<uint32_t>(1, 1025));
    probe.set_bytes_per_size(*rc::gen::inRange<uint64_t>(1, (16ULL << 30) + 1));
    const Parameters p = MakeParameters(probe);
    RC_ASSERT(p.region_bytes <= kMaxRegionBytes);
    RC_ASSERT(p.transfers[0].slots >= 1U);
    RC_ASSERT(p.transfers[0].messages >= 1U && p.transfers[0].messages <= kMaxMessages);
    RC_ASSERT(p.transfers[0].warm_up_messages >= 1U);
  }));
}

TEST(Parameters, DigestTellsDifferentMeasurementsApart) {
  v1::FabricProbe a, b;
  b.set_window(32);
  EXPECT_NE(MakeParameters(a).digest, MakeParameters(b).digest);
  b.set_window(64);
  EXPECT_EQ(MakeParameters(a).digest, MakeParameters(b).digest);
}

const std::string kSession(kSessionBytes, 's');

ControlMessage AnyMessage() {
  ControlMessage m;
  m.type = ControlType::kHello;
  m.step = 7;
  m.values = {1, 2, 3, ~uint64_t{0}, 5, 6};
  m.blob = std::string("address\0with a zero", 19);
  return m;
}

TEST(ControlMessage, SurvivesTheWire) {
  const std::string bytes = EncodeControl(AnyMessage(), kSession);
  EXPECT_EQ(bytes.size(), kControlBytes);
  const auto back = DecodeControl(bytes, kSession);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->type, ControlType::kHello);
  EXPECT_EQ(back->step, 7U);
  EXPECT_EQ(back->values, AnyMessage().values);
  EXPECT_EQ(back->blob, AnyMessage().blob);
}

TEST(ControlMessage, AnyChangedByteIsRefused) {
  const std::string good = EncodeControl(AnyMessage(), kSession);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    EXPECT_FALSE(DecodeControl(bad, kSession).ok()) << i;
  }
}

TEST(ControlMessage, AnotherSessionIsToldApartFromGarbage) {
  const std::string bytes = EncodeControl(AnyMessage(), std::string(kSessionBytes, 't'));
  EXPECT_EQ(DecodeControl(bytes, kSession).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST(ControlMessage, RandomBytesOfAnyLengthAreRefused) {
  EXPECT_TRUE(rc::check([](const std::string& bytes) { RC_ASSERT(!DecodeControl(bytes, kSession).ok()); }));
}

Offer AnyOffer() {
  Offer offer;
  offer.provider = "tcp;ofi_rxm";
  offer.session = std::string("\0\1\2\3\4\5\6\7\x8\x9\xa\xb\xc\xd\xe\xff", 16);
  offer.domains = {{"eth0", "192.0.2.0/24", std::string("\2\0\x1f\x90", 4)}, {"eth1", "-", "x"}};
  return offer;
}

TEST(Offer, SurvivesTheWire) {
  const auto back = DecodeOffer(EncodeOffer(AnyOffer()));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->provider, "tcp;ofi_rxm");
  EXPECT_EQ(back->session, AnyOffer().session);
  ASSERT_EQ(back->domains.size(), 2U);
  EXPECT_EQ(back->domains[0].fabric, "192.0.2.0/24");
  EXPECT_EQ(back->domains[0].address, AnyOffer().domains[0].address);
}

TEST(Offer, NamesCannotForgeLines) {
  Offer offer = AnyOffer();
  offer.domains[0].domain = "a b\nprovider evil";
  const auto back = DecodeOffer(EncodeOffer(offer));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->provider, "tcp;ofi_rxm");
}

TEST(Offer, MalformedTextIsRefused) {
  const std::string head = "weft-fabric 1\nprovider tcp\nsession 00112233445566778899aabbccddeeff\n";
  EXPECT_TRUE(DecodeOffer(head + "domain lo net 0011\n").ok());
  std::string many = head;
  for (int i = 0; i < 17; ++i) many += "domain lo net 0011\n";
  for (const std::string& bad :
       {std::string(), std::string("weft-fabric 2\n"), head, head + "domain lo net 001\n",
        head + "domain lo net zz\n", head + "domain lo net " + std::string(300, '0') + "\n",
        head + "domain lo\n", head + "what ever\n", many,
        std::string("weft-fabric 1\nprovider tcp\nsession 00\ndomain lo net 0011\n")})
    EXPECT_FALSE(DecodeOffer(bad).ok()) << bad;
}

TEST(Offer, CutOrDamagedTextNeverCrashes) {
  const std::string good = EncodeOffer(AnyOffer());
  for (size_t i = 0; i < good.size(); ++i) {
    DecodeOffer(good.substr(0, i)).IgnoreError();
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x5a);
    DecodeOffer(bad).IgnoreError();
  }
}

}  // namespace
}  // namespace weft::fabric
