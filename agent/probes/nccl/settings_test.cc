#include "agent/probes/nccl/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace weft::nccl {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Lines(const std::vector<v1::NcclSetting>& settings) {
  std::vector<std::string> lines;
  for (const v1::NcclSetting& s : settings)
    lines.push_back(absl::StrCat(s.name(), "=", s.value(), " ", s.source()));
  return lines;
}

TEST(EffectiveSettings, FirstValueOfANameWinsAndSaysWhereItCameFrom) {
  EXPECT_THAT(
      Lines(EffectiveSettings({"NCCL_A=env", "PATH=/bin", "NCCL_DEBUG=INFO"},
                              {{"/home/x/.nccl.conf", "NCCL_A=user\nNCCL_B = user\n"},
                               {"/etc/nccl.conf", "# NCCL_C=no\n  NCCL_B=site\nNCCL_D=site=1\n\nnonsense\n"}},
                              {"NCCL_DEBUG"})),
      ElementsAre("NCCL_A=env environment", "NCCL_B=user /home/x/.nccl.conf", "NCCL_D=site=1 /etc/nccl.conf",
                  "NCCL_DEBUG=INFO probe"));
}

TEST(EffectiveSettings, AreBoundedAndValidText) {
  std::vector<std::string> environment = {absl::StrCat("NCCL_0=", std::string(1000, 'x'), "\xff")};
  for (int i = 1000; i < 2000; ++i) environment.push_back(absl::StrCat("NCCL_", i, "=", "\xfe\xff"));
  const auto settings = EffectiveSettings(environment, {}, {});
  EXPECT_EQ(settings.size(), 128U);
  for (const v1::NcclSetting& s : settings) {
    EXPECT_LE(s.value().size(), 256U);
    EXPECT_TRUE(IsValidUtf8(s.value()));
  }
}

TEST(FingerprintOf, LeavesOutWhatDiffersFromNodeToNodeAndChangesNoNumber) {
  const auto settings = EffectiveSettings(
      {"NCCL_DEBUG=INFO", "NCCL_HOSTID=n1", "NCCL_RAS_ENABLE=0", "NCCL_IB_HCA==mlx5", "NCCL_CONF_FILE=/x"},
      {}, {});
  EXPECT_EQ(FingerprintOf(settings), "NCCL_IB_HCA==mlx5");
}

TEST(SetOwnSettings, SetsTheLogRasAndTheRequiredNetworkAlone) {
  setenv("NCCL_DEBUG_FILE", "/tmp/elsewhere", 1);
  setenv("NCCL_NVLS_ENABLE", "0", 1);
  EXPECT_THAT(SetOwnSettings("IB"),
              ElementsAre("NCCL_RAS_ENABLE", "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_NET"));
  EXPECT_STREQ(getenv("NCCL_NET"), "IB");
  EXPECT_STREQ(getenv("NCCL_RAS_ENABLE"), "0");
  EXPECT_STREQ(getenv("NCCL_NVLS_ENABLE"), "0");
  EXPECT_EQ(getenv("NCCL_DEBUG_FILE"), nullptr);
}

}  // namespace
}  // namespace weft::nccl
