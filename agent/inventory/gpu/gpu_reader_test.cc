#include "agent/inventory/gpu/gpu_reader.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class GpuReaderTest : public ::testing::Test {
 protected:
  GpuReaderTest() : path_(::testing::TempDir() + "/fake_nvml_" + std::to_string(getpid())) {
    Be("gpus 2\n");
    setenv("WEFT_FAKE_NVML", path_.c_str(), 1);
  }
  ~GpuReaderTest() override { std::filesystem::remove(path_); }

  // From the next call on.
  void Be(const std::string& behaviour) { std::ofstream(path_) << behaviour; }
  void Open(const char* library = WEFT_FAKE_NVML_LIBRARY) {
    absl::StatusOr<std::unique_ptr<nvml::Library>> opened = nvml::Library::Open(library);
    ASSERT_TRUE(opened.ok()) << opened.status();
    library_ = *std::move(opened);
    reader_.emplace(*library_, [this](const std::string& phase) { phases_.push_back(phase); });
  }

  const std::string path_;
  std::unique_ptr<nvml::Library> library_;
  std::optional<GpuReader> reader_;
  std::vector<std::string> phases_;
};

TEST_F(GpuReaderTest, AReportHoldsAllThatTheDriverSays) {
  Open();
  const v1::GpuReport report = reader_->ReadReport();
  EXPECT_EQ(report.problem(), "");
  EXPECT_THAT(report.warnings(), IsEmpty());
  EXPECT_EQ(report.driver_version(), "580.65.06");
  EXPECT_EQ(report.cuda_version(), "13.0");
  ASSERT_THAT(report.gpus(), SizeIs(2));
  const v1::Gpu& gpu = report.gpus(1);
  EXPECT_EQ(gpu.pci_address(), "0000:1a:00.0");
  EXPECT_EQ(gpu.model(), "NVIDIA H200");
  EXPECT_EQ(gpu.uuid(), "GPU-00000001-1111-2222-3333-444444444444");
  const v1::GpuFacts& facts = gpu.facts();
  EXPECT_EQ(facts.pcie_width(), 8u);
  EXPECT_EQ(facts.pcie_max_width(), 16u);
  EXPECT_EQ(facts.pcie_replay_count(), 3u);
  ASSERT_THAT(facts.nvlinks(), SizeIs(18));
  EXPECT_TRUE(facts.nvlinks(16).active());
  EXPECT_FALSE(facts.nvlinks(17).active());
  EXPECT_EQ(facts.nvlink_crc_flit_errors(), 38u);
  EXPECT_EQ(facts.nvlink_replay_errors(), 52u);
  EXPECT_FALSE(facts.has_nvlink_recovery_errors()) << "a field that is not supported is no zero";
  EXPECT_EQ(facts.nvlink_megabytes_per_second(), 26562u);
  ASSERT_THAT(facts.peers(), SizeIs(1));
  EXPECT_EQ(facts.peers(0).pci_address(), "0000:19:00.0");
  EXPECT_EQ(facts.peers(0).read(), v1::P2P_STATUS_OK);
  EXPECT_EQ(facts.peers(0).pci(), v1::P2P_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(facts.peers(0).topology(), v1::GPU_TOPOLOGY_HOST_BRIDGE);
  EXPECT_EQ(facts.fabric().state(), v1::GPU_FABRIC_STATE_COMPLETED);
  EXPECT_EQ(facts.fabric().cluster_uuid(), "abababab-abab-abab-abab-abababababab");
  EXPECT_EQ(facts.remapped_rows_uncorrected(), 2u);
  EXPECT_TRUE(facts.remapping_pending());
  EXPECT_FALSE(facts.remapping_failed());
  EXPECT_THAT(phases_, Contains("facts of 0000:1a:00.0"));
}

TEST_F(GpuReaderTest, WhatIsNotSupportedIsUnsetAndNeverAnError) {
  std::string none = "gpus 2\n";
  for (const char* function :
       {"SystemGetDriverVersion", "SystemGetCudaDriverVersion_v2", "DeviceGetName", "DeviceGetUUID",
        "DeviceGetCurrPcieLinkWidth", "DeviceGetPcieReplayCounter", "DeviceGetNvLinkState",
        "DeviceGetFieldValues", "DeviceGetP2PStatus", "DeviceGetTopologyCommonAncestor",
        "DeviceGetGpuFabricInfoV", "DeviceGetRemappedRows", "DeviceGetMemoryInfo", "DeviceGetMemoryInfo_v2",
        "DeviceGetMigMode", "DeviceGetUtilizationRates", "DeviceGetComputeRunningProcesses_v3",
        "EventSetCreate"})
    none += std::string("unsupported ") + function + "\n";
  Be(none);
  Open();
  reader_->CollectXids(absl::UnixEpoch());
  const v1::GpuReport report = reader_->ReadReport();
  ASSERT_THAT(report.gpus(), SizeIs(2));
  EXPECT_EQ(report.driver_version(), "");
  const v1::GpuFacts& facts = report.gpus(0).facts();
  EXPECT_FALSE(facts.has_pcie_width());
  EXPECT_TRUE(facts.has_pcie_max_width()) << "a neighbour suffered";
  EXPECT_FALSE(facts.has_pcie_replay_count());
  EXPECT_THAT(facts.nvlinks(), IsEmpty());
  EXPECT_FALSE(facts.has_nvlink_crc_flit_errors());
  EXPECT_EQ(facts.peers(0).read(), v1::P2P_STATUS_UNSPECIFIED);
  EXPECT_FALSE(facts.has_fabric());
  EXPECT_FALSE(facts.has_remapping_failed());
  const v1::GpuActivity activity = reader_->ReadActivity();
  EXPECT_FALSE(activity.gpus(0).processes_known());
  EXPECT_FALSE(activity.gpus(0).has_utilization_percent());
  EXPECT_FALSE(activity.gpus(0).has_memory_used_bytes());
}

TEST_F(GpuReaderTest, ActivityFollowsWhatHappens) {
  Open();
  EXPECT_THAT(reader_->ReadActivity().gpus(0).processes(), IsEmpty());
  EXPECT_TRUE(reader_->ReadActivity().gpus(0).processes_known());
  Be("gpus 2\nprocess 1 4711 1073741824\nutil 1 97\nmemory 1 5\n");
  const v1::GpuActivity activity = reader_->ReadActivity();
  EXPECT_THAT(activity.gpus(0).processes(), IsEmpty());
  ASSERT_THAT(activity.gpus(1).processes(), SizeIs(1));
  EXPECT_EQ(activity.gpus(1).processes(0).pid(), 4711u);
  EXPECT_EQ(activity.gpus(1).processes(0).memory_bytes(), 1073741824u);
  EXPECT_EQ(activity.gpus(1).utilization_percent(), 97u);
  EXPECT_EQ(activity.gpus(1).memory_used_bytes(), 5u);
}

TEST_F(GpuReaderTest, ManyProcessesAreListedWithinBounds) {
  Open();
  std::string behaviour = "gpus 1\n";
  for (int i = 0; i < 300; ++i)
    behaviour += "process 0 " + std::to_string(1000 + i) + " 18446744073709551615\n";
  Be(behaviour);
  const v1::GpuActivity activity = reader_->ReadActivity();
  EXPECT_TRUE(activity.gpus(0).processes_known());
  EXPECT_THAT(activity.gpus(0).processes(), SizeIs(256));
  EXPECT_FALSE(activity.gpus(0).processes(0).has_memory_bytes()) << "all ones mean unknown";
}

TEST_F(GpuReaderTest, ALostGpuIsNamedAndTheOthersAreRead) {
  Be("gpus 8\nlost 3\n");
  Open();
  const v1::GpuReport report = reader_->ReadReport();
  EXPECT_THAT(report.gpus(), SizeIs(7));
  EXPECT_THAT(report.warnings(), ElementsAre("GPU 3 of 8 cannot be reached: GPU is lost"));
  EXPECT_THAT(report.gpus(0).facts().peers(), SizeIs(6));
}

TEST_F(GpuReaderTest, XidsAreKeptWithTheirGpuAndTheNewestWin) {
  Open();
  std::string behaviour = "gpus 2\nxid 1 79\n";
  Be(behaviour);
  reader_->CollectXids(absl::FromUnixSeconds(1000));
  for (int i = 0; i < 40; ++i) behaviour += "xid 0 " + std::to_string(100 + i) + "\n";
  Be(behaviour);
  reader_->CollectXids(absl::FromUnixSeconds(2000));
  const v1::GpuReport report = reader_->ReadReport();
  ASSERT_THAT(report.gpus(1).facts().xids(), SizeIs(1));
  EXPECT_EQ(report.gpus(1).facts().xids(0).xid(), 79u);
  EXPECT_EQ(report.gpus(1).facts().xids(0).time().seconds(), 1000);
  ASSERT_THAT(report.gpus(0).facts().xids(), SizeIs(16));
  EXPECT_EQ(report.gpus(0).facts().xids(15).xid(), 139u);
}

TEST_F(GpuReaderTest, AnOldLibraryTellsWhatItCan) {
  Be("gpus 1\nprocess 0 12 34\n");
  Open(WEFT_FAKE_NVML_OLD_LIBRARY);
  EXPECT_EQ(reader_->ReadReport().gpus(0).model(), "");
  EXPECT_EQ(reader_->ReadReport().gpus(0).pci_address(), "0000:19:00.0");
  const v1::GpuActivity activity = reader_->ReadActivity();
  ASSERT_THAT(activity.gpus(0).processes(), SizeIs(1));
  EXPECT_EQ(activity.gpus(0).processes(0).pid(), 12u);
  EXPECT_EQ(activity.gpus(0).processes(0).memory_bytes(), 34u);
}

TEST_F(GpuReaderTest, ALibraryThatIsNotThereOrDoesNotStartIsSaid) {
  EXPECT_EQ(nvml::Library::Open("/nowhere/libnvidia-ml.so.1").status().code(), absl::StatusCode::kNotFound);
  // Any other library lacks every function.
  EXPECT_EQ(nvml::Library::Open("libm.so.6").status().code(), absl::StatusCode::kUnimplemented);
  Be("init 9\n");
  EXPECT_THAT(std::string(nvml::Library::Open(WEFT_FAKE_NVML_LIBRARY).status().message()),
              HasSubstr("NVML does not start: Driver Not Loaded"));
}

}  // namespace
}  // namespace weft
