#include <unistd.h>

#include <array>
#include <atomic>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/framing.h"
#include "base/id.h"
#include "base/near_match.h"
#include "base/text.h"
#include "base/units.h"
#include "base/worker.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(Crc32cTest, MatchesTheCheckValueOfRfc3720) { EXPECT_EQ(Crc32c("123456789"), 0xE3069283u); }

TEST(FramingTest, FramesSurviveAnySplitOfTheStream) {
  const std::string stream = EncodeFrame("one") + EncodeFrame("") + EncodeFrame(std::string(70000, 'x'));
  for (const size_t step : {1u, 3u, 4096u}) {
    FrameDecoder decoder;
    std::vector<std::string> frames;
    for (size_t i = 0; i < stream.size(); i += step) {
      decoder.Append(absl::string_view(stream).substr(i, step));
      for (;;) {
        const auto frame = decoder.Next();
        ASSERT_TRUE(frame.ok());
        if (!frame->has_value()) break;
        frames.push_back(**frame);
      }
    }
    EXPECT_THAT(frames, testing::ElementsAre("one", "", std::string(70000, 'x')));
    EXPECT_EQ(decoder.pending_bytes(), 0u);
  }
}

TEST(FramingTest, RefusesALengthOverTheLimit) {
  FrameDecoder decoder;
  decoder.Append("\xff\xff\xff\xff");
  EXPECT_EQ(decoder.Next().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(FramingTest, ReadTellsAnEndFromACut) {
  std::array<int, 2> pipe_fds;
  ASSERT_EQ(pipe(pipe_fds.data()), 0);
  ASSERT_TRUE(WriteFrame(pipe_fds[1], "whole").ok());
  ASSERT_EQ(write(pipe_fds[1], "\x09\0\0\0half", 8), 8);
  close(pipe_fds[1]);
  EXPECT_EQ(*ReadFrame(pipe_fds[0]), "whole");
  EXPECT_EQ(ReadFrame(pipe_fds[0]).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReadFrame(pipe_fds[0]).status().code(), absl::StatusCode::kOutOfRange);
  close(pipe_fds[0]);
}

TEST(TextTest, ReplacesEachInvalidByteAndKeepsTheRest) {
  EXPECT_EQ(ToValidUtf8("n\xc3\xb6"
                        "de\xff\xc0\xaf"),
            "n\xc3\xb6"
            "de\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_FALSE(IsValidUtf8("\xed\xa0\x80"));  // a surrogate
  EXPECT_TRUE(IsValidUtf8("\xf0\x9f\x98\x80"));
}

TEST(TextTest, CutsBetweenCodePoints) {
  EXPECT_EQ(CutUtf8("n\xc3\xb6", 2), "n");
  EXPECT_EQ(CutUtf8("n\xc3\xb6", 3), "n\xc3\xb6");
}

TEST(TextTest, TerminalCodesAndNewlinesBecomeText) {
  EXPECT_EQ(EscapeControl("a\x1b[31m\nb\xc2\x9b"), "a\\x1b[31m\\x0ab\\x9b");
}

TEST(TextTest, NamesThatCouldBeMarkupAreNotSafe) {
  EXPECT_TRUE(IsSafeName("gpu-017.rack12"));
  EXPECT_FALSE(IsSafeName("<img src=x onerror=alert(1)>"));
  EXPECT_FALSE(IsSafeName("a\nb"));
  EXPECT_FALSE(IsSafeName(""));
}

TEST(IdTest, LaterTimesSortLater) {
  const absl::Time t = absl::FromUnixSeconds(1767225600);
  EXPECT_LT(TimeOrderedUuid(t), TimeOrderedUuid(t + absl::Milliseconds(1)));
  EXPECT_NE(RandomUuid(), RandomUuid());
}

TEST(FileTest, WritesAWholeFileAndReadsItBack) {
  const std::string path = testing::TempDir() + "/weft_base_test_" + RandomHex(4);
  ASSERT_TRUE(WriteFileDurably(path, "content").ok());
  EXPECT_EQ(*ReadFile(path), "content");
  unlink(path.c_str());
  EXPECT_EQ(ReadFile(path).status().code(), absl::StatusCode::kNotFound);
}

TEST(NearMatchTest, CountsEditsUpToALimit) {
  EXPECT_EQ(EditDistance("node", "node", 2), 0u);
  EXPECT_EQ(EditDistance("ndoe", "node", 2), 1u);
  EXPECT_EQ(EditDistance("nod", "nodes", 2), 2u);
  EXPECT_EQ(EditDistance("finding", "delivery", 2), 3u);
  EXPECT_EQ(EditDistance(std::string(65, 'a'), std::string(65, 'a'), 2), 3u);
}

TEST(NearMatchTest, NearestFirstAndNothingFarAway) {
  EXPECT_EQ(NearMatches("gpu17", {"gpu017", "gpu1", "cpu17", "login"}),
            (std::vector<std::string>{"cpu17", "gpu017", "gpu1"}));
  EXPECT_EQ(NearMatches("zzz", {"gpu017"}), std::vector<std::string>{});
  EXPECT_EQ(DidYouMean({}), "");
  EXPECT_EQ(DidYouMean({"a", "b"}), " Did you mean a, b?");
}

TEST(UnitsTest, ThreeDigitsForPeople) {
  EXPECT_EQ(FormatBandwidth(23.44e6), "23.4 MB/s");
  EXPECT_EQ(FormatBandwidth(999.7e6), "1.00 GB/s");
  EXPECT_EQ(FormatMessageSize(1 << 20), "1 MiB");
  EXPECT_EQ(FormatAge(absl::Minutes(5)), "5m");
  EXPECT_EQ(FormatAge(absl::InfiniteDuration()), "never");
}

TEST(WorkerTest, RunsAtOnceThenWhenWokenThenStops) {
  std::atomic<int> steps = 0;
  SimulatedClock clock(absl::UnixEpoch());
  Worker worker("test", clock, [&] {
    ++steps;
    return absl::Hours(1);
  });
  worker.Start();
  while (steps < 1) std::this_thread::yield();
  worker.Wake();
  while (steps < 2) std::this_thread::yield();
  // The worker reads the clock after its step: one Advance could come before that.
  while (steps < 3) {
    clock.Advance(absl::Hours(2));
    std::this_thread::yield();
  }
  worker.Stop();
  EXPECT_GE(steps, 3);
}

}  // namespace
}  // namespace weft
