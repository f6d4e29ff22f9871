#include "agent/inventory/inventory.h"

#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "agent/inventory/sysfs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A tree that stands for / with /sys and /proc as kernels lay them out.
class InventoryTest : public ::testing::Test {
 protected:
  InventoryTest() {
    std::string pattern = ::testing::TempDir() + "/inventory_XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~InventoryTest() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path, std::ios::binary) << text;
  }
  void Link(const std::string& path, const std::string& target) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    fs::create_directory_symlink(target, root_ + path);
  }
  void AddPciDevice(const std::string& address, const std::string& driver) {
    fs::create_directories(root_ + "/sys/bus/pci/devices/" + address);
    fs::create_directories(root_ + "/sys/bus/pci/drivers/" + driver);
    Link("/sys/bus/pci/devices/" + address + "/driver", root_ + "/sys/bus/pci/drivers/" + driver);
  }
  void AddInterface(const std::string& name, const std::string& speed, const std::string& address) {
    const std::string folder = "/sys/class/net/" + name;
    Write(folder + "/speed", speed);
    Write(folder + "/operstate", "up\n");
    Write(folder + "/type", "1\n");
    if (!address.empty()) Link(folder + "/device", root_ + "/sys/bus/pci/devices/" + address);
  }
  Node Read() {
    return ReadInventory("id", {.root = root_, .hostname = "", .labels = {}, .agent_version = "1"});
  }

  std::string root_;
};

TEST_F(InventoryTest, InterfacesAreReadWithoutLoopbackAndCardsComeFirst) {
  AddPciDevice("0000:17:00.0", "mlx5_core");
  AddInterface("lo", "", "");
  AddInterface("docker0", "10000\n", "");
  AddInterface("eth0", "100000\n", "0000:17:00.0");
  Write("/sys/class/net/bonding_masters", "bond0\n");
  EXPECT_THAT(Read().nics,
              ElementsAre(Nic{"eth0", "mlx5_core", 12'500'000'000, "Ethernet", "up", "0000:17:00.0"},
                          Nic{"docker0", "", 1'250'000'000, "Ethernet", "up", ""}));
}

TEST_F(InventoryTest, RdmaDevicesAreRead) {
  AddPciDevice("0000:18:00.0", "mlx5_core");
  Write("/sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
  Write("/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  Write("/sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
  Link("/sys/class/infiniband/mlx5_0/device", root_ + "/sys/bus/pci/devices/0000:18:00.0");
  EXPECT_THAT(Read().nics, ElementsAre(Nic{"mlx5_0", "mlx5_core", 50'000'000'000, "InfiniBand", "ACTIVE",
                                           "0000:18:00.0"}));
}

TEST_F(InventoryTest, OnlyDisplayControllersOfTheVendorAreGpus) {
  for (const auto& [address, device_class] :
       std::map<std::string, std::string>{{"0000:19:00.0", "0x030200\n"}, {"0000:19:00.1", "0x068000\n"}}) {
    Write("/sys/bus/pci/devices/" + address + "/vendor", "0x10de\n");
    Write("/sys/bus/pci/devices/" + address + "/class", device_class);
  }
  Write("/proc/driver/nvidia/gpus/0000:19:00.0/information",
        "Model: \t\t NVIDIA H200\nIRQ:   \t\t 16\nGPU UUID: \t GPU-12345678-9abc\nVideo BIOS: \t 96\n");
  EXPECT_THAT(Read().gpus, ElementsAre(Gpu{"0000:19:00.0", "GPU-12345678-9abc", "NVIDIA H200"}));
}

TEST_F(InventoryTest, AGpuWithoutADriverIsStillThere) {
  Write("/sys/bus/pci/devices/0000:19:00.0/vendor", "0x10de\n");
  Write("/sys/bus/pci/devices/0000:19:00.0/class", "0x030200\n");
  EXPECT_THAT(Read().gpus, ElementsAre(Gpu{"0000:19:00.0", "", ""}));
}

TEST_F(InventoryTest, AGpuThatSleepsHasNoUuid) {
  Write("/sys/bus/pci/devices/0000:19:00.0/vendor", "0x10de\n");
  Write("/sys/bus/pci/devices/0000:19:00.0/class", "0x030000\n");
  Write("/proc/driver/nvidia/gpus/0000:19:00.0/information",
        "Model: Unknown\nGPU UUID: GPU-" + std::string(8, '?') + "\n");
  EXPECT_THAT(Read().gpus, ElementsAre(Gpu{"0000:19:00.0", "", ""}));
}

class GarbageTest : public InventoryTest, public ::testing::WithParamInterface<std::string> {};

TEST_P(GarbageTest, IsUnknownAndNeverAFailureNorANumber) {
  AddInterface("eth0", GetParam(), "");
  Write("/sys/class/net/eth0/operstate", GetParam());
  Write("/sys/class/net/eth0/type", GetParam());
  Write("/sys/class/infiniband/mlx5_0/ports/1/rate", GetParam());
  Write("/sys/class/infiniband/mlx5_1/ports/1/rate", "200 Gb/sec (2X NDR)");
  Write("/sys/bus/pci/devices/0000:19:00.0/vendor", GetParam());
  Write("/proc/sys/kernel/hostname", GetParam());
  Write("/etc/machine-id", GetParam());
  const Node node = Read();
  ASSERT_THAT(node.nics, SizeIs(3));
  EXPECT_EQ(node.nics[0].rate_bytes_per_second, 0u);
  EXPECT_EQ(node.nics[1].rate_bytes_per_second, 25'000'000'000u) << "a neighbour suffered";
  EXPECT_EQ(node.nics[2].rate_bytes_per_second, 0u);
  EXPECT_EQ(node.nics[2].link_layer, "");
  EXPECT_THAT(node.gpus, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(All, GarbageTest,
                         ::testing::Values("N/A (no PMA)\n", "", "\n", "-1\n", "18446744073709551616\n",
                                           "1e99\n", std::string(10000, '9'), "\xff\xfe\n",
                                           std::string("4\0002", 3), "nan Gb/sec\n", "inf Gb/sec\n",
                                           "-5 Gb/sec\n"));

TEST_F(InventoryTest, AMissingLineEndDoesNotMatter) {
  AddInterface("eth0", "25000", "");
  EXPECT_EQ(Read().nics.at(0).rate_bytes_per_second, 3'125'000'000u);
}

TEST_F(InventoryTest, AnEmptyTreeIsAnEmptyNode) {
  const Node node = Read();
  EXPECT_EQ(node.hostname, "unknown");
  EXPECT_THAT(node.nics, IsEmpty());
  EXPECT_EQ(node.versions, (std::map<std::string, std::string>{{"agent", "1"}}));
}

TEST_F(InventoryTest, AContainerHostsInterfacesAreBounded) {
  for (int i = 0; i < 100; ++i) AddInterface(absl::StrCat("veth", i), "10000", "");
  EXPECT_THAT(Read().nics, SizeIs(64));
}

TEST_F(InventoryTest, TheRealMachineIsReadWithoutFailure) {
  const Node node =
      ReadInventory("id", {.root = "/", .hostname = "", .labels = {{"rack", "r1"}}, .agent_version = "1"});
  EXPECT_NE(node.versions.at("kernel"), "");
  EXPECT_NE(node.hostname, "");
}

TEST_F(InventoryTest, AFifoInPlaceOfAFileDoesNotHang) {
  fs::create_directories(root_ + "/proc/sys/kernel");
  ASSERT_EQ(mkfifo((root_ + "/proc/sys/kernel/hostname").c_str(), 0600), 0);
  EXPECT_EQ(Read().hostname, "unknown");
}

}  // namespace
}  // namespace weft
