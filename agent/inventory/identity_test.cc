#include "agent/inventory/identity.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

const MachineFingerprint kHere{"4c4c4544-0042", "aaaa"};

class IdentityTest : public ::testing::Test {
 protected:
  IdentityTest() {
    std::string pattern = ::testing::TempDir() + "/identity_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~IdentityTest() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_ + path).parent_path());
    std::ofstream(folder_ + path) << text;
  }
  std::string folder_;
};

TEST_F(IdentityTest, TheIdIsMadeOnceAndKept) {
  const std::string first = *LoadOrMakeNodeId(folder_ + "/state", kHere);
  EXPECT_EQ(first.size(), 36u);
  EXPECT_EQ(*LoadOrMakeNodeId(folder_ + "/state", kHere), first);
}

TEST_F(IdentityTest, ACopyOfTheDiskOnAnotherMachineIsRefusedAndToldWhatToDo) {
  ASSERT_TRUE(LoadOrMakeNodeId(folder_, kHere).ok());
  const absl::StatusOr<std::string> id = LoadOrMakeNodeId(folder_, {"4c4c4544-9999", "aaaa"});
  EXPECT_EQ(id.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(id.status().message()), HasSubstr("another machine"));
  EXPECT_THAT(std::string(id.status().message()), HasSubstr("remove that file"));
}

TEST_F(IdentityTest, AReinstalledSystemOnTheSameBoardIsTheSameNode) {
  const std::string first = *LoadOrMakeNodeId(folder_, kHere);
  EXPECT_EQ(*LoadOrMakeNodeId(folder_, {kHere.dmi_product_uuid, "bbbb"}), first);
}

TEST_F(IdentityTest, WithoutTheRightToReadDmiTheMachineIdDecides) {
  const std::string first = *LoadOrMakeNodeId(folder_, kHere);
  EXPECT_EQ(*LoadOrMakeNodeId(folder_, {"", "aaaa"}), first);
  EXPECT_FALSE(LoadOrMakeNodeId(folder_, {"", "bbbb"}).ok());
  EXPECT_EQ(*LoadOrMakeNodeId(folder_, {"", ""}), first);
}

TEST_F(IdentityTest, ADamagedFileIsNeverReplacedBySilence) {
  Write("/node_id", "rubbish\n");
  EXPECT_EQ(LoadOrMakeNodeId(folder_, kHere).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(*ReadFile(folder_ + "/node_id"), "rubbish\n");
}

TEST_F(IdentityTest, PlaceholdersOfVendorsAreNoFingerprint) {
  Write("/sys/class/dmi/id/product_uuid", "03000200-0400-0500-0006-000700080009\n");
  Write("/etc/machine-id", "abcdef\n");
  EXPECT_EQ(ReadMachineFingerprint(folder_), (MachineFingerprint{"", "abcdef"}));
}

}  // namespace
}  // namespace weft
