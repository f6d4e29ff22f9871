#include "agent/probes/transport/verdict.h"

#include "agent/probes/transport/testdata.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kGigabyte = 1'000'000'000;

TransportProof Judge(const std::string& log, const TransportExpectation& expected,
                     const std::vector<NicTraffic>& traffic = {}) {
  return JudgeTransport(ParseNcclLog(log), traffic, expected);
}

std::vector<TransportVerdict> Verdicts(const TransportProof& proof) {
  std::vector<TransportVerdict> verdicts;
  for (const TransportFinding& finding : proof.findings) verdicts.push_back(finding.verdict);
  return verdicts;
}

// A node with two NICs of 400 Gb/s, NVLink and all that belongs to it.
TransportExpectation Fabric() {
  return {.has_rdma_fabric = true,
          .networks = {},
          .nics = {"mlx5_0", "mlx5_1"},
          .gdr = true,
          .nvls = true,
          .p2p = true,
          .local_ranks = {},
          .network_bytes = 0};
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

TEST(TransportVerdictTest, AHealthyFabricIsOkAndItsUsesAreListed) {
  const TransportProof proof = Judge(TestLog("nccl_2.24_ib.log"), Fabric());
  EXPECT_EQ(proof.verdict, TransportVerdict::kOk);
  EXPECT_THAT(proof.findings, IsEmpty());
  EXPECT_EQ(proof.network, "IB");
  EXPECT_THAT(proof.uses, ElementsAre(TransportUse{"NET/IB", "mlx5_0", true, 1},
                                      TransportUse{"NET/IB", "mlx5_1", true, 2},
                                      TransportUse{"P2P/CUMEM", "", false, 2}));
}

TEST(TransportVerdictTest, SocketsAreAFallOnlyWhereTheNodeHasAFabric) {
  const std::string log = TestLog("nccl_2.28_socket.log");
  EXPECT_EQ(Judge(log, {}).verdict, TransportVerdict::kOk);
  const TransportProof proof = Judge(log, Fabric());
  EXPECT_THAT(Verdicts(proof), Contains(TransportVerdict::kFellBackToTcp));
  EXPECT_EQ(proof.verdict, TransportVerdict::kFellBackToTcp);
  EXPECT_THAT(proof.findings[0].evidence, Contains(HasSubstr("Using network Socket")));
  EXPECT_THAT(proof.findings[0].evidence, Contains(HasSubstr("via NET/Socket/0")));
  EXPECT_THAT(proof.findings[0].evidence, Contains(HasSubstr("NET/IB : No device found")));
}

TEST(TransportVerdictTest, AMissingPluginIsToldWithTheFallThatItCauses) {
  TransportExpectation expected = Fabric();
  expected.networks = {"Libfabric", "AWS Libfabric", "OFI"};
  EXPECT_THAT(Verdicts(Judge(TestLog("nccl_2.28_socket.log"), expected)),
              Contains(TransportVerdict::kPluginMissing));
  // Where the network is NCCL's own, a plugin that is not there is not missed.
  EXPECT_EQ(Judge(TestLog("nccl_2.24_ib.log"), Fabric()).verdict, TransportVerdict::kOk);
}

TEST(TransportVerdictTest, ThePlatformsPluginIsOk) {
  TransportExpectation expected = Fabric();
  expected.networks = {"libfabric"};
  expected.nics = {"rdmap16s27"};
  expected.nvls = false;
  EXPECT_EQ(Judge(TestLog("nccl_2.30_plugin.log"), expected).verdict, TransportVerdict::kOk);
}

TEST(TransportVerdictTest, GdrOffIsSeenInChannelsRingAndHca) {
  TransportExpectation expected = {.has_rdma_fabric = true, .gdr = true};
  const TransportProof old = Judge(TestLog("nccl_2.12_ib_no_gdr.log"), expected);
  EXPECT_THAT(Verdicts(old), ElementsAre(TransportVerdict::kGdrOff));
  EXPECT_THAT(old.findings[0].evidence, Contains(HasSubstr("[receive] via NET/IB/1")));
  const std::string log = TestLog("nccl_2.24_ib.log");
  EXPECT_THAT(Verdicts(Judge(Replaced(log, "PXN 0 GDR 1", "PXN 0 GDR 0"), expected)),
              ElementsAre(TransportVerdict::kGdrOff));
  const TransportProof disabled =
      Judge(Replaced(log, "RDMA Enabled for HCA 1", "RDMA Disabled for HCA 1"), expected);
  EXPECT_THAT(disabled.findings.at(0).evidence, ElementsAre(HasSubstr("Disabled for HCA 1 'mlx5_1'")));
  EXPECT_EQ(Judge(Replaced(log, "1(1)/GDRDMA", "1(1)"), expected).verdict, TransportVerdict::kOk)
      << "sending without GDR is a setting";
  expected.gdr = false;
  EXPECT_EQ(Judge(TestLog("nccl_2.12_ib_no_gdr.log"), expected).verdict, TransportVerdict::kOk);
}

TEST(TransportVerdictTest, ANicOutsideTheFabricIsWrongAndOneThatIsNeverNamedIsUnused) {
  TransportExpectation expected = Fabric();
  expected.nics = {"mlx5_0", "mlx5_4"};
  const TransportProof proof = Judge(TestLog("nccl_2.24_ib.log"), expected);
  EXPECT_THAT(Verdicts(proof), ElementsAre(TransportVerdict::kWrongNic, TransportVerdict::kNicUnused));
  EXPECT_THAT(proof.findings[0].detail, HasSubstr("mlx5_1"));
  EXPECT_THAT(proof.findings[1].detail, HasSubstr("mlx5_4 was not used"));
}

TEST(TransportVerdictTest, CountersShowANicThatTheLogNamesAndNobodyUses) {
  TransportExpectation expected = Fabric();
  expected.network_bytes = 10 * kGigabyte;
  const TransportProof proof =
      Judge(TestLog("nccl_2.24_ib.log"), expected,
            {{"mlx5_0", true, 10 * kGigabyte, 10 * kGigabyte, false}, {"mlx5_1", true, 4096, 4096, false}});
  EXPECT_THAT(Verdicts(proof), ElementsAre(TransportVerdict::kNicUnused));
  EXPECT_THAT(proof.findings[0].evidence, Contains(HasSubstr("counters of mlx5_1: 4096 B sent")));
}

TEST(TransportVerdictTest, CountersShowAFallThatTheLogDenies) {
  TransportExpectation expected = Fabric();
  expected.network_bytes = 10 * kGigabyte;
  const std::vector<NicTraffic> traffic = {{"mlx5_0", true, 1000, 1000, false},
                                           {"mlx5_1", true, 1000, 1000, false},
                                           {"eth0", false, 10 * kGigabyte, 10 * kGigabyte, false}};
  const TransportProof proof = Judge(TestLog("nccl_2.24_ib.log"), expected, traffic);
  EXPECT_THAT(Verdicts(proof), ElementsAre(TransportVerdict::kFellBackToTcp));
  EXPECT_THAT(proof.findings[0].evidence, Contains(HasSubstr("counters of eth0")));
  // A busy management interface beside a busy fabric is none.
  std::vector<NicTraffic> both = traffic;
  both[0].sent_bytes = both[1].sent_bytes = 5 * kGigabyte;
  EXPECT_EQ(Judge(TestLog("nccl_2.24_ib.log"), expected, both).verdict, TransportVerdict::kOk);
}

TEST(TransportVerdictTest, SharedMemoryInsideAHostIsLostP2p) {
  TransportExpectation expected = {.p2p = true};
  const TransportProof proof = Judge(TestLog("nccl_2.28_two_gpus_shm.log"), expected);
  EXPECT_THAT(Verdicts(proof), ElementsAre(TransportVerdict::kP2pLost));
  EXPECT_THAT(proof.findings[0].detail, HasSubstr("2 by SHM/direct"));
  EXPECT_THAT(proof.findings[0].evidence, Contains(HasSubstr("P2P is disabled")));
  EXPECT_EQ(Judge(TestLog("nccl_2.28_two_gpus_shm.log"), {}).verdict, TransportVerdict::kOk)
      << "shared memory is normal where GPUs cannot do better";
}

TEST(TransportVerdictTest, SocketsBetweenGpusOfOneHostAreLostP2p) {
  // One agent sees one rank only; that the other is in the same host is what the node says.
  TransportExpectation expected = {.p2p = true, .local_ranks = {0, 1}};
  const TransportProof proof = Judge(TestLog("nccl_2.28_socket.log"), expected);
  EXPECT_THAT(Verdicts(proof), ElementsAre(TransportVerdict::kP2pLost));
  EXPECT_THAT(proof.findings[0].detail, HasSubstr("4 by NET/Socket"));
  expected.local_ranks.clear();
  EXPECT_EQ(Judge(TestLog("nccl_2.28_socket.log"), expected).verdict, TransportVerdict::kOk);
}

TEST(TransportVerdictTest, LostNvlsIsSeenAndSilenceAboutItIsNoProofOfHealth) {
  const std::string log = TestLog("nccl_2.24_ib.log");
  EXPECT_THAT(
      Verdicts(Judge(Replaced(log, "support is available on dev 1", "support is not available on dev 1"),
                     Fabric())),
      ElementsAre(TransportVerdict::kNvlsLost));
  EXPECT_THAT(Verdicts(Judge(Replaced(log, "NVLS", "XYZ"), Fabric())),
              ElementsAre(TransportVerdict::kNvlsLost));
  TransportExpectation expected = Fabric();
  expected.nvls = false;
  EXPECT_EQ(Judge(Replaced(log, "NVLS", "XYZ"), expected).verdict, TransportVerdict::kOk);
}

TEST(TransportVerdictTest, NothingSaidIsNoEvidenceAndNeverOk) {
  for (const char* log :
       {"", "Abort COMPLETE\n", "h:1:2 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.2<0>\n"}) {
    EXPECT_EQ(Judge(log, {}).verdict, TransportVerdict::kNoEvidence) << log;
    EXPECT_EQ(Judge(log, Fabric()).verdict, TransportVerdict::kNoEvidence) << log;
  }
  // Counters alone are evidence, too.
  TransportExpectation expected = {.has_rdma_fabric = true, .network_bytes = kGigabyte};
  EXPECT_EQ(Judge("", expected, {{"mlx5_0", true, kGigabyte, 0, false}}).verdict, TransportVerdict::kOk);
  EXPECT_EQ(Judge("", expected, {{"mlx5_0", true, 0, 0, false}}).verdict, TransportVerdict::kNoEvidence);
}

TEST(TransportVerdictTest, EvidenceIsBounded) {
  std::string log = "Using network Socket\n";
  for (int i = 0; i < 100; ++i)
    log += "h:1:2 [0] NCCL INFO Channel " + std::to_string(i) + "/0 : 0[0] -> 1[0] [send] via NET/Socket/0\n";
  const TransportProof proof = Judge(log, Fabric());
  EXPECT_LE(proof.findings.at(0).evidence.size(), 8u);
}

}  // namespace
}  // namespace weft
