#include "agent/idle/gpu_watch.h"

#include <signal.h>

#include "agent/idle/testing.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST_F(GpuWatchTest, ReportAndActivityComeFromTheReader) {
  GpuWatch& watch = Start();
  ASSERT_TRUE(AwaitGood()) << watch.facts().source.problem();
  const GpuWatch::Facts facts = watch.facts();
  EXPECT_THAT(facts.report.gpus(), SizeIs(2));
  EXPECT_EQ(facts.report.driver_version(), "580.65.06");
  EXPECT_GT(facts.source.read_time().seconds(), 0);
  EXPECT_THAT(watch.last_reading().activity->gpus(), SizeIs(2));
}

TEST_F(GpuWatchTest, AProcessThatAppearsIsSeen) {
  GpuWatch& watch = Start();
  ASSERT_TRUE(AwaitGood());
  Be("gpus 2\nprocess 1 4711 1000\n");
  EXPECT_TRUE(Await([&] {
    const GpuWatch::Reading reading = watch.last_reading();
    return reading.activity.ok() && reading.activity->gpus(1).processes_size() == 1;
  }));
}

TEST_F(GpuWatchTest, TheRevisionRisesOnlyWithChanges) {
  GpuWatch& watch = Start();
  ASSERT_TRUE(AwaitGood());
  const uint64_t first = watch.revision();
  const uint64_t number = watch.last_reading().number;
  ASSERT_TRUE(Await([&] { return watch.last_reading().number > number + 60; })) << "three reports";
  EXPECT_EQ(watch.revision(), first);
  Be("gpus 2\nxid 0 79\n");
  EXPECT_TRUE(Await([&] { return watch.revision() > first; }));
  EXPECT_EQ(watch.facts().report.gpus(0).facts().xids(0).xid(), 79u);
}

TEST_F(GpuWatchTest, AHungDriverIsNamedKilledAndTriedAgain) {
  GpuWatch& watch = Start();
  ASSERT_TRUE(AwaitGood());
  Be("gpus 2\nhang DeviceGetComputeRunningProcesses_v3\n");
  ASSERT_TRUE(AwaitProblem("the driver hangs at: activity of 0000:19:00.0"));
  EXPECT_FALSE(watch.last_reading().activity.ok());
  EXPECT_THAT(watch.facts().report.gpus(), SizeIs(2)) << "old facts stay, with the problem beside them";
  Be("gpus 2\n");
  EXPECT_TRUE(AwaitGood()) << "it comes back by itself";
}

TEST_F(GpuWatchTest, AtMostOneReaderHangsAtATime) {
  Be("hang Init_v2\n");
  GpuWatch::Options options = Options();
  options.start_patience = absl::Milliseconds(200);
  Start(options);
  for (int i = 0; i < 200; ++i) {
    EXPECT_LE(OwnChildren().size(), 1u);
    usleep(5000);
  }
  EXPECT_TRUE(AwaitProblem("the driver hangs at: start of NVML"));
}

TEST_F(GpuWatchTest, AKilledReaderIsSaidAtOnceAndComesBack) {
  GpuWatch::Options options = Options();
  options.retry = absl::Seconds(1);
  GpuWatch& watch = Start(options);
  ASSERT_TRUE(AwaitGood());
  const uint64_t revision = watch.revision();
  ASSERT_THAT(OwnChildren(), SizeIs(1));
  kill(OwnChildren().front(), SIGKILL);
  ASSERT_TRUE(AwaitProblem("the reader of the GPUs ended"));
  EXPECT_FALSE(watch.last_reading().activity.ok());
  EXPECT_GT(watch.revision(), revision);
  EXPECT_TRUE(AwaitGood());
}

TEST_F(GpuWatchTest, ANodeWithoutNvmlSaysSo) {
  GpuWatch::Options options = Options();
  options.environment = {"WEFT_NVML_LIBRARY=/nowhere/libnvidia-ml.so.1"};
  GpuWatch& watch = Start(options);
  ASSERT_TRUE(AwaitProblem("NVML is not here"));
  EXPECT_THAT(std::string(watch.last_reading().activity.status().message()), HasSubstr("NVML is not here"));
}

TEST_F(GpuWatchTest, AReaderThatIsNotInstalledIsSaid) {
  GpuWatch::Options options = Options();
  options.executable = dir_ + "/weft-gpu-inventory";
  Start(options);
  EXPECT_TRUE(AwaitProblem("weft-gpu-inventory"));
}

TEST_F(GpuWatchTest, ReadingsThatStopGrowOld) {
  GpuWatch::Options options = Options();
  options.silence_patience = absl::Minutes(10);
  GpuWatch& watch = Start(options);
  ASSERT_TRUE(AwaitGood());
  Be("gpus 2\nhang DeviceGetUtilizationRates\n");
  EXPECT_TRUE(Await([&] { return !watch.last_reading().activity.ok(); }));
  EXPECT_THAT(std::string(watch.last_reading().activity.status().message()),
              HasSubstr("the driver answers slowly"));
}

TEST_F(GpuWatchTest, AttentionQuickensThePace) {
  GpuWatch::Options options = Options();
  options.activity_interval = absl::Hours(1);
  GpuWatch& watch = Start(options);
  ASSERT_TRUE(AwaitGood());
  const uint64_t number = watch.last_reading().number;
  watch.Attend();
  EXPECT_TRUE(watch.AwaitReading(number + 4, absl::Seconds(30)).has_value());
  watch.Ignore();
  // The order for the slow pace brings one last reading.
  uint64_t last = 0;
  EXPECT_TRUE(Await([&] {
    const uint64_t before = std::exchange(last, watch.last_reading().number);
    usleep(200'000);
    return before == last;
  }));
}

}  // namespace
}  // namespace weft
