#include "cli/hostlist.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(HostlistTest, PlainNamesStayInOrderWithoutDuplicates) {
  EXPECT_THAT(*ExpandHostlist("b, a,b"), ElementsAre("b", "a"));
}

TEST(HostlistTest, RangesKeepTheWidthOfTheirFirstNumber) {
  EXPECT_THAT(*ExpandHostlist("gpu[001-004,7]"), ElementsAre("gpu001", "gpu002", "gpu003", "gpu004", "gpu7"));
  EXPECT_THAT(*ExpandHostlist("n[8-11]"), ElementsAre("n8", "n9", "n10", "n11"));
}

TEST(HostlistTest, SeveralBracketsMultiply) {
  EXPECT_THAT(*ExpandHostlist("r[1-2]n[03-04]-ib,x"),
              ElementsAre("r1n03-ib", "r1n04-ib", "r2n03-ib", "r2n04-ib", "x"));
}

TEST(HostlistTest, GlobsPassThrough) {
  EXPECT_THAT(*ExpandHostlist("gpu*,node-?"), ElementsAre("gpu*", "node-?"));
  EXPECT_TRUE(IsGlob("gpu*"));
  EXPECT_FALSE(IsGlob("gpu1"));
}

TEST(HostlistTest, RefusesWhatItCannotRead) {
  for (const char* bad : {"", ",", "a,,b", "gpu[1-", "gpu1]", "gpu[[1]]", "gpu[]", "gpu[a-b]", "gpu[4-1]",
                          "gpu[1-2-3]", "gpu[-1]", "gpu[99999999999]", "gpu[1-,2]"}) {
    const auto names = ExpandHostlist(bad);
    EXPECT_EQ(names.status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(HostlistTest, ExpansionIsBounded) {
  EXPECT_THAT(*ExpandHostlist("n[1-1000]"), SizeIs(1000));
  for (const char* big :
       {"n[0-1000]", "n[1-999999999]", "a[1-600],b[1-600]", "a[1-100]b[1-100]c[1-100]", "a[1-600,1-600]"}) {
    const auto names = ExpandHostlist(big);
    EXPECT_THAT(std::string(names.status().message()), HasSubstr("more than 1000")) << big;
  }
}

TEST(HostlistTest, ErrorsEscapeControlCharacters) {
  EXPECT_THAT(std::string(ExpandHostlist("gpu[\x1b[1m]").status().message()), HasSubstr("\\x1b"));
}

}  // namespace
}  // namespace weft::cli
