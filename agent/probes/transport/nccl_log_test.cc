#include "agent/probes/transport/nccl_log.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "agent/probes/transport/testdata.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "rapidcheck/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

NcclChannel OnlyChannel(const std::string& via) {
  const NcclFacts facts = ParseNcclLog("h:1:2 [0] NCCL INFO Channel 00/0 : 3[c7000] -> 12[1] " + via);
  EXPECT_THAT(facts.channels, SizeIs(1)) << via;
  return facts.channels.empty() ? NcclChannel() : facts.channels[0];
}

TEST(NcclLogTest, SocketsOf228AreRead) {
  const NcclFacts facts = ParseNcclLog(TestLog("nccl_2.28_socket.log"));
  EXPECT_EQ(facts.version, "2.28.3+cuda13.0");
  EXPECT_EQ(facts.network, "Socket");
  EXPECT_EQ(facts.plugin, "");
  EXPECT_EQ(facts.devices.at("Socket").at("0"), "eth0");
  EXPECT_THAT(facts.plugin_failures, SizeIs(1));
  EXPECT_EQ(facts.channel_count, 4u);
  EXPECT_EQ(std::count_if(facts.channels.begin(), facts.channels.end(),
                          [](const NcclChannel& c) { return c.receive; }),
            2);
  EXPECT_EQ(DeviceOf(facts, facts.channels.at(0)), "eth0");
  EXPECT_EQ(facts.ring_gdr, false);
  EXPECT_EQ(facts.nvls, std::nullopt);
  EXPECT_THAT(facts.local_ranks, ElementsAre(0));
  EXPECT_TRUE(facts.init_complete);
  EXPECT_THAT(facts.unknown, IsEmpty()) << "a usual line is not known";
}

TEST(NcclLogTest, InfinibandOf224IsRead) {
  const NcclFacts facts = ParseNcclLog(TestLog("nccl_2.24_ib.log"));
  EXPECT_EQ(facts.version, "2.24.3+cuda12.6");
  EXPECT_EQ(facts.network, "IB");
  EXPECT_EQ(facts.devices.at("IB").at("1"), "mlx5_1");
  EXPECT_THAT(facts.gdr, SizeIs(2));
  EXPECT_TRUE(facts.gdr.at(1).enabled);
  EXPECT_EQ(facts.gdr.at(1).nic, "mlx5_1");
  EXPECT_EQ(facts.ring_gdr, true);
  EXPECT_EQ(facts.nvls, true);
  EXPECT_EQ(facts.dma_buf, true);
  EXPECT_THAT(facts.local_ranks, ElementsAre(0, 1));
  EXPECT_THAT(facts.channels, SizeIs(5));
  EXPECT_THAT(facts.unknown, IsEmpty());
}

TEST(NcclLogTest, BusIdsOf212AreNoRanks) {
  const NcclFacts facts = ParseNcclLog(TestLog("nccl_2.12_ib_no_gdr.log"));
  EXPECT_EQ(facts.version, "2.12.12+cuda11.6");
  EXPECT_EQ(facts.channels.at(0).from_rank, 1);
  EXPECT_EQ(facts.channels.at(0).to_rank, 0);
  EXPECT_EQ(DeviceOf(facts, facts.channels.at(0)), "mlx5_2");
  EXPECT_EQ(facts.ring_gdr, std::nullopt) << "2.12 does not say";
}

TEST(NcclLogTest, PluginsAreRead) {
  const NcclFacts facts = ParseNcclLog(TestLog("nccl_2.30_plugin.log"));
  EXPECT_EQ(facts.plugin, "Libfabric");
  EXPECT_EQ(facts.network, "Libfabric");
  EXPECT_EQ(facts.found_nics, 16u);
  EXPECT_THAT(facts.plugin_failures, IsEmpty());
  EXPECT_TRUE(facts.channels.at(0).gdr);
  EXPECT_EQ(DeviceOf(facts, facts.channels.at(0)), "rdmap16s27");
  EXPECT_EQ(ParseNcclLog("x NCCL INFO NET/Plugin: Loaded net plugin AWS Libfabric (v8)").plugin,
            "AWS Libfabric");
}

TEST(NcclLogTest, ADevicesListOfAPluginThatBuildsOnInfinibandNamesItsChannels) {
  const NcclFacts facts = ParseNcclLog(
      "NET/IB : Using [0]ibp0:1/IB/SHARP [1]ibp1:1/IB/SHARP [RO]; OOB eth0:10.0.0.1<0>\n"
      "Using network IBext_v8\n"
      "h:1:2 [7] NCCL INFO Channel 03/0 : 47[7] -> 39[7] [receive] via NET/IBext_v8/1\n");
  EXPECT_EQ(facts.network, "IBext_v8");
  EXPECT_EQ(DeviceOf(facts, facts.channels.at(0)), "ibp1");
}

TEST(NcclLogTest, EveryShapeOfAMissingPluginCounts) {
  for (const char* line :
       {"NET/Plugin: Could not find: libnccl-net.so",
        "NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin.",
        "NET/Plugin : No plugin found (libnccl-net.so), using internal implementation",
        "NET/Plugin : No plugin found, using internal implementation",
        "NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or "
        "directory No plugin found (libnccl-net.so), using internal implementation",
        "NET/Plugin: Failed to find ncclNetPlugin symbol (>= v5). ncclNetPlugin symbols v4 and "
        "lower are not supported."}) {
    EXPECT_THAT(ParseNcclLog(std::string("h:1:2 [0] NCCL INFO ") + line).plugin_failures, SizeIs(1)) << line;
  }
  for (const char* line : {"NET/Plugin: Failed to find ncclNetPlugin_v9 symbol.",
                           "PROFILER/Plugin: Could not find: libnccl-profiler.so.",
                           "NET/Plugin: Failed to find ncclCollNetPlugin_v9 symbol."}) {
    EXPECT_THAT(ParseNcclLog(std::string("h:1:2 [0] NCCL INFO ") + line).plugin_failures, IsEmpty()) << line;
  }
}

TEST(NcclLogTest, EveryShapeOfAChannelIsRead) {
  NcclChannel channel = OnlyChannel("[receive] via NET/AWS Libfabric/2/GDRDMA");
  EXPECT_EQ(channel.transport, "NET/AWS Libfabric");
  EXPECT_EQ(channel.device, "2");
  EXPECT_TRUE(channel.gdr && channel.receive && channel.is_network());
  EXPECT_EQ(channel.from_rank, 3);
  EXPECT_EQ(channel.to_rank, 12);
  channel = OnlyChannel("[send] via NET/IB/11(4)/GDRDMA/Shared");
  EXPECT_EQ(channel.device, "11");
  EXPECT_TRUE(channel.gdr && !channel.receive);
  EXPECT_EQ(OnlyChannel("via P2P/direct pointer/read").transport, "P2P/direct pointer");
  EXPECT_EQ(OnlyChannel("via P2P/MNNVL").transport, "P2P/MNNVL");
  EXPECT_EQ(OnlyChannel("via SHM/direct/direct").transport, "SHM/direct");
  EXPECT_EQ(OnlyChannel("via direct shared memory").transport, "SHM/direct");
  EXPECT_EQ(OnlyChannel("via SHM/direct/direct").device, "");
  EXPECT_FALSE(OnlyChannel("[send] via NET/IB/0/Shared").gdr);
}

TEST(NcclLogTest, WarningsAreFoundBehindTheirTimeAndFile) {
  const NcclFacts facts = ParseNcclLog(TestLog("nccl_2.28_two_gpus_shm.log"));
  EXPECT_THAT(facts.p2p_off_lines, SizeIs(1));
  EXPECT_THAT(facts.warnings, ElementsAre(HasSubstr("NVLINK connected GPUs 1 and 0")));
}

TEST(NcclLogTest, NvlsIsLostWhereOneDeviceLacksIt) {
  const NcclFacts facts = ParseNcclLog(
      "a NCCL INFO NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 16)\r\n"
      "a NCCL INFO NVLS multicast support is not available on dev 1 (NVLS_NCHANNELS 0)\r\n");
  EXPECT_EQ(facts.nvls, false);
  EXPECT_THAT(facts.nvls_lines, SizeIs(2));
}

TEST(NcclLogTest, LinkEventsAreKept) {
  EXPECT_THAT(ParseNcclLog("a NCCL INFO NET/IB : mlx5_0:1 speed change detected: 400000 -> 100000 Mbps\n"
                           "a NCCL WARN NET/IB : mlx5_1:1 Got async event : port error")
                  .link_events,
              SizeIs(2));
}

TEST(NcclLogTest, UnknownLinesAreKeptWithinBoundsAndCounted) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "something quite new " + std::to_string(i) + "\n";
  const NcclFacts facts = ParseNcclLog(text);
  EXPECT_THAT(facts.unknown, SizeIs(kMaxNcclUnknown));
  EXPECT_EQ(facts.unknown_count, 1000u);
}

TEST(NcclLogTest, ControlCharactersAndLongLinesCannotGetOut) {
  const NcclFacts facts = ParseNcclLog("Using network \x1b[31mred" + std::string(100000, 'x') + "\n" +
                                       std::string(5000, '\xff') + "\nUsing network IB");
  EXPECT_EQ(facts.network, "IB");
  EXPECT_THAT(facts.network_lines.at(0), HasSubstr("\\x1b[31m"));
  EXPECT_LE(facts.network_lines.at(0).size(), 512u);
  EXPECT_LE(facts.unknown.at(0).size(), 512u);
}

// Pieces of real lines in any order, cut anywhere, and bytes of any kind between them.
std::string Garbled(const std::vector<std::string>& lines, uint32_t seed) {
  std::mt19937 random(seed);
  std::string text;
  for (int i = 0; i < 30; ++i) {
    std::string line = lines[random() % lines.size()];
    const size_t at = random() % (line.size() + 1);
    switch (random() % 5) {
      case 0:
        line.resize(at);
        break;
      case 1:
        line.erase(0, at);
        break;
      case 2:
        line.insert(at, 1, static_cast<char>(random()));
        break;
      case 3:
        line += lines[random() % lines.size()];
        break;
      default:
        break;
    }
    text += line + (random() % 8 == 0 ? "" : "\n");
  }
  return text;
}

std::vector<std::string> AllLines() {
  std::vector<std::string> lines;
  for (const char* name : {"nccl_2.28_socket.log", "nccl_2.24_ib.log", "nccl_2.12_ib_no_gdr.log",
                           "nccl_2.30_plugin.log", "nccl_2.28_two_gpus_shm.log"})
    for (const absl::string_view line : absl::StrSplit(TestLog(name), '\n')) lines.emplace_back(line);
  return lines;
}

RC_GTEST_PROP(NcclLogProperty, AnyBytesAreParsedWithinBounds, (const std::string& noise, uint32_t seed)) {
  static const auto* const lines = new std::vector<std::string>(AllLines());
  const NcclFacts facts = ParseNcclLog(Garbled(*lines, seed) + noise);
  RC_ASSERT(facts.unknown.size() <= kMaxNcclUnknown);
  for (const NcclChannel& channel : facts.channels) {
    RC_ASSERT(channel.from_rank >= 0 && channel.to_rank >= 0);
    RC_ASSERT(!channel.transport.empty() && channel.line.size() <= 512);
    DeviceOf(facts, channel);
  }
}

RC_GTEST_PROP(NcclLogProperty, TheOrderOfLinesDoesNotMatterForWhatTheySay, (uint32_t seed)) {
  std::vector<std::string> lines = absl::StrSplit(TestLog("nccl_2.24_ib.log"), '\n');
  std::shuffle(lines.begin(), lines.end(), std::mt19937(seed));
  const NcclFacts facts = ParseNcclLog(absl::StrJoin(lines, "\n"));
  RC_ASSERT(facts.network == "IB" && facts.version == "2.24.3+cuda12.6" && facts.channel_count == 5u);
  RC_ASSERT(facts.ring_gdr == true && facts.nvls == true && facts.local_ranks.size() == 2u);
  for (const NcclChannel& channel : facts.channels)
    if (channel.is_network()) RC_ASSERT(DeviceOf(facts, channel).substr(0, 5) == "mlx5_");
}

}  // namespace
}  // namespace weft
