#include "cli/exit_code.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::cli {
namespace {

TEST(ExitCodeTest, EachStatusHasItsPromisedCode) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeOf(absl::InternalError("")), 1);
  EXPECT_EQ(ExitCodeOf(absl::AbortedError("")), 1);
  EXPECT_EQ(ExitCodeOf(absl::InvalidArgumentError("")), 2);
  EXPECT_EQ(ExitCodeOf(absl::NotFoundError("")), 3);
  EXPECT_EQ(ExitCodeOf(absl::PermissionDeniedError("")), 4);
  EXPECT_EQ(ExitCodeOf(absl::UnauthenticatedError("")), 4);
  EXPECT_EQ(ExitCodeOf(absl::UnavailableError("")), 5);
  EXPECT_EQ(ExitCodeOf(absl::DeadlineExceededError("")), 5);
  EXPECT_EQ(ExitCodeOf(absl::CancelledError("")), 130);
}

TEST(ExitCodeTest, HelpNamesEveryCode) {
  for (const char* code :
       {"\n  0 ", "\n  1 ", "\n  2 ", "\n  3 ", "\n  4 ", "\n  5 ", "\n  6 ", "\n  130 "}) {
    EXPECT_THAT(std::string(ExitCodeHelp()), ::testing::HasSubstr(code));
  }
}

}  // namespace
}  // namespace weft::cli
