#include "agent/probes/nccl/log_capture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

namespace weft::nccl {
namespace {

using ::testing::ElementsAre;

// gtest prints to stdout too: nothing is expected while the capture is on.
TEST(LogCapture, TakesWhatIsPrintedLineByLineAndGivesStdoutBack) {
  std::vector<std::string> lines;
  LogCapture::Excerpt whole, cut;
  {
    LogCapture log;
    ASSERT_TRUE(log.Start().ok());
    std::printf("NCCL INFO one\nNCCL INFO two\nunfinished");
    std::fflush(stdout);
    log.Drain();
    lines = log.Lines();
    whole = log.Cut(1000);
    cut = log.Cut(9);
  }
  EXPECT_THAT(lines, ElementsAre("NCCL INFO one", "NCCL INFO two", "unfinished"));
  EXPECT_EQ(whole.text, "NCCL INFO one\nNCCL INFO two\nunfinished");
  EXPECT_EQ(whole.left_out, 0U);
  EXPECT_EQ(cut.text, "NCCL Ihed");
  EXPECT_EQ(cut.left_out, whole.text.size() - 9);
}

}  // namespace
}  // namespace weft::nccl
