#include "agent/inventory/byte_counters.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kMax64 = std::numeric_limits<uint64_t>::max();

class ByteCountersTest : public ::testing::Test {
 protected:
  ByteCountersTest() {
    std::string pattern = ::testing::TempDir() + "/counters_XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~ByteCountersTest() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path, std::ios::binary) << text;
  }
  void SetPort(const std::string& device, const std::string& sent, const std::string& received,
               const std::string& port = "1") {
    const std::string folder = "/sys/class/infiniband/" + device + "/ports/" + port + "/counters/";
    Write(folder + "port_xmit_data", sent);
    Write(folder + "port_rcv_data", received);
  }
  void SetInterface(const std::string& name, const std::string& sent, const std::string& received) {
    const std::string folder = "/sys/class/net/" + name + "/statistics/";
    Write(folder + "tx_bytes", sent);
    Write(folder + "rx_bytes", received);
  }

  std::string root_;
};

std::vector<NicTraffic> Between(uint64_t before, uint64_t after) {
  const auto at = [](uint64_t raw) {
    return std::vector<ByteCounter>{
        {.nic = "eth0", .port = "", .rdma = false, .unit_bytes = 1, .sent = raw, .received = 0}};
  };
  return TrafficBetween(at(before), at(after));
}

TEST_F(ByteCountersTest, InfinibandCountsWordsOfFourBytes) {
  SetPort("mlx5_0", "1000\n", "5\n");
  const auto before = ReadByteCounters(root_);
  SetPort("mlx5_0", "12500001000\n", "6\n");
  EXPECT_THAT(TrafficBetween(before, ReadByteCounters(root_)),
              ElementsAre(NicTraffic{"mlx5_0", true, 50'000'000'000, 4, false}));
}

TEST_F(ByteCountersTest, PortsOfADeviceAddUpAndEfaCountsBytes) {
  SetPort("mlx5_0", "1", "1", "1");
  SetPort("mlx5_0", "1", "1", "2");
  Write("/sys/class/infiniband/rdmap16s27/ports/1/hw_counters/tx_bytes", "100");
  Write("/sys/class/infiniband/rdmap16s27/ports/1/hw_counters/rx_bytes", "100");
  const auto before = ReadByteCounters(root_);
  SetPort("mlx5_0", "2", "1", "1");
  SetPort("mlx5_0", "3", "1", "2");
  Write("/sys/class/infiniband/rdmap16s27/ports/1/hw_counters/tx_bytes", "150");
  EXPECT_THAT(
      TrafficBetween(before, ReadByteCounters(root_)),
      ElementsAre(NicTraffic{"mlx5_0", true, 12, 0, false}, NicTraffic{"rdmap16s27", true, 50, 0, false}));
}

TEST_F(ByteCountersTest, ACounterThatSaysNothingIsLeftOutAndItsNeighbourIsNot) {
  for (const char* text : {"N/A (no PMA)\n", "", "-1\n", "18446744073709551616\n", "4294967295\n"}) {
    SetPort("mlx5_0", text, text);
    SetPort("mlx5_1", "7", text);
    SetInterface("lo", "1", "1");
    SetInterface("eth0", "9", "9");
    const auto counters = ReadByteCounters(root_);
    EXPECT_THAT(counters, ElementsAre(ByteCounter{"mlx5_1", "1", true, 4, 7, std::nullopt},
                                      ByteCounter{"eth0", "", false, 1, 9, 9}))
        << text;
    EXPECT_THAT(TrafficBetween(counters, counters),
                ElementsAre(NicTraffic{"mlx5_1", true, 0, 0, false}, NicTraffic{"eth0", false, 0, 0, false}));
  }
}

TEST_F(ByteCountersTest, CountersWrapAndBeginAnew) {
  EXPECT_EQ(Between(0xffff'fff0, 0x10).at(0).sent_bytes, 0x20u) << "wrap at 32 bits";
  EXPECT_EQ(Between(kMax64 - 15, 16).at(0).sent_bytes, 32u) << "wrap at 64 bits";
  EXPECT_FALSE(Between(kMax64 - 15, 16).at(0).counter_reset);
  const NicTraffic reset = Between(5'000'000'000'000, 700).at(0);
  EXPECT_EQ(reset.sent_bytes, 700u);
  EXPECT_TRUE(reset.counter_reset);
  EXPECT_TRUE(Between(1'000'000, 10).at(0).counter_reset);
}

TEST_F(ByteCountersTest, ANicThatCameOrWentIsLeftOut) {
  SetInterface("eth0", "1", "1");
  const auto one = ReadByteCounters(root_);
  SetInterface("eth1", "1", "1");
  const auto two = ReadByteCounters(root_);
  EXPECT_EQ(TrafficBetween(one, two).size(), 1u);
  EXPECT_EQ(TrafficBetween(two, one).size(), 1u);
  EXPECT_THAT(TrafficBetween({}, two), IsEmpty());
}

}  // namespace
}  // namespace weft
