#include "agent/runner/runner.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/runner/process_tree.h"
#include "base/framing.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Probes here are shell scripts under the name of the real one: what a probe does wrong is easy to write in
// sh, and what they answer are real frames from files.
class RunnerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(Reaper::BecomeSubreaper().ok()); }

  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "weft-runner-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override {
    EXPECT_THAT(OwnChildren(), IsEmpty());
    std::filesystem::remove_all(dir_);
  }

  void WriteProbe(const std::string& script) {
    const std::string path = absl::StrCat(dir_, "/weft-probe-fabric");
    std::ofstream(path) << "#!/bin/sh\n" << script;
    ASSERT_EQ(chmod(path.c_str(), 0700), 0);
  }
  // A file that holds `bytes`; its path.
  std::string Put(const std::string& name, const std::string& bytes) {
    const std::string path = absl::StrCat(dir_, "/", name);
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::string PutReply(const std::string& name, const v1::ProbeReply& reply) {
    return Put(name, EncodeFrame(reply.SerializeAsString()));
  }
  std::string GoodResult() {
    v1::ProbeReply reply;
    v1::Result* result = reply.mutable_result();
    result->set_outcome(v1::OUTCOME_OK);
    v1::Measurement* m = result->add_measurements();
    m->set_metric(v1::METRIC_WRITE_BANDWIDTH);
    m->set_value(1e9);
    return PutReply("good", reply);
  }
  std::string Phase(const std::string& phase) {
    v1::ProbeReply reply;
    reply.set_phase(phase);
    return PutReply(absl::StrCat("phase_", phase), reply);
  }
  static v1::ProbeRequest Request(absl::Duration deadline) {
    v1::ProbeRequest request;
    request.set_run_id("run-1");
    request.mutable_spec()->set_name("fabric_write");
    request.mutable_spec()->mutable_fabric();
    request.set_world_size(2);
    const int64_t ns = absl::ToInt64Nanoseconds(deadline);
    request.mutable_deadline()->set_seconds(ns / 1000000000);
    request.mutable_deadline()->set_nanos(static_cast<int32_t>(ns % 1000000000));
    return request;
  }
  v1::Result Run(absl::Duration deadline = absl::Seconds(20)) {
    ProbeRunner runner({.probe_dir = dir_}, reaper_);
    return runner.Run(
        Request(deadline), [this](std::string r) { rendezvous_.push_back(r); }, cancel_);
  }

  std::string dir_;
  Reaper reaper_;
  CancelToken cancel_;
  std::vector<std::string> rendezvous_;
};

std::string FileContent(const std::string& path) {
  std::stringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return content.str();
}

TEST_F(RunnerTest, ResultComesBackWithWhatTheAgentKnowsBetter) {
  v1::ProbeReply offer;
  offer.set_rendezvous("here");
  WriteProbe(absl::StrCat("cat ", PutReply("offer", offer), " >&3; echo to stdout; echo to stderr >&2; cat ",
                          GoodResult(), " >&3"));
  const v1::Result result = Run();
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.detail();
  EXPECT_EQ(result.run_id(), "run-1");
  EXPECT_GT(result.start_time().seconds(), 0);
  EXPECT_GT(result.elapsed().nanos(), 0);
  EXPECT_EQ(result.tool_output(), "to stdout\nto stderr\n");
  EXPECT_THAT(rendezvous_, ElementsAre("here"));
}

TEST_F(RunnerTest, RendezvousIsDeliveredWhileTheProbeRuns) {
  v1::ProbeReply offer;
  offer.set_rendezvous("here");
  const std::string met = absl::StrCat(dir_, "/met");
  WriteProbe(absl::StrCat("cat ", PutReply("offer", offer), " >&3; while [ ! -e ", met,
                          " ]; do sleep 0.01; done; cat ", GoodResult(), " >&3"));
  ProbeRunner runner({.probe_dir = dir_}, reaper_);
  const v1::Result result = runner.Run(
      Request(absl::Seconds(20)), [&](const std::string&) { Put("met", ""); }, cancel_);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.detail();
}

TEST_F(RunnerTest, ProbeReadsItsRequestAsOneFrame) {
  const std::string seen = absl::StrCat(dir_, "/seen");
  WriteProbe(absl::StrCat("cat > ", seen, "; cat ", GoodResult(), " >&3"));
  Run(absl::Seconds(20));
  EXPECT_EQ(FileContent(seen), EncodeFrame(Request(absl::Seconds(20)).SerializeAsString()));
}

TEST_F(RunnerTest, ChildGetsOnlyItsFourDescriptorsAndAnExplicitEnvironment) {
  const int leaked = open("/dev/null", O_RDONLY);  // on purpose without O_CLOEXEC
  ASSERT_GE(leaked, 0);
  ASSERT_EQ(setenv("WEFT_TEST_SECRET", "x", 1), 0);
  WriteProbe(absl::StrCat("ls /proc/$$/fd | tr '\\n' ' '; env; cat ", GoodResult(), " >&3"));
  const v1::Result result = Run();
  close(leaked);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.detail();
  // 10 or 255 is the shell's own handle on its script.
  EXPECT_THAT(result.tool_output(), ::testing::ContainsRegex("^0 1 (10 )?2 (255 )?3 "));
  EXPECT_THAT(result.tool_output(), AllOf(HasSubstr(absl::StrCat("WEFT_AGENT_PID=", getpid())),
                                          Not(HasSubstr("WEFT_TEST_SECRET"))));
}

TEST_F(RunnerTest, UnknownKindIsRefusedAndNothingStarts) {
  WriteProbe(absl::StrCat("touch ", dir_, "/started"));
  v1::ProbeRequest request = Request(absl::Seconds(1));
  request.mutable_spec()->clear_kind();
  ProbeRunner runner({.probe_dir = dir_}, reaper_);
  EXPECT_EQ(runner.Run(request, nullptr, cancel_).outcome(), v1::OUTCOME_REFUSED);
  EXPECT_FALSE(std::filesystem::exists(absl::StrCat(dir_, "/started")));
}

TEST_F(RunnerTest, MissingExecutableIsRefusedWithItsPathAndNoKindToOffer) {
  EXPECT_THAT(ProbeRunner({.probe_dir = dir_}, reaper_).Kinds(), IsEmpty());
  const v1::Result result = Run();
  EXPECT_EQ(result.outcome(), v1::OUTCOME_REFUSED);
  EXPECT_THAT(result.detail(), HasSubstr(absl::StrCat(dir_, "/weft-probe-fabric")));
}

TEST_F(RunnerTest, DeathIsAFailureThatNamesTheSignalAndThePhase) {
  WriteProbe(absl::StrCat("cat ", Phase("write"), " >&3; kill -SEGV $$"));
  const v1::Result result = Run();
  EXPECT_EQ(result.outcome(), v1::OUTCOME_FAILED);
  EXPECT_THAT(result.detail(), AllOf(HasSubstr("signal 11"), HasSubstr("in phase write")));
  EXPECT_EQ(result.phase(), "write");
}

TEST_F(RunnerTest, CleanExitWithoutAResultIsAFailure) {
  WriteProbe("exit 0");
  const v1::Result result = Run();
  EXPECT_EQ(result.outcome(), v1::OUTCOME_FAILED);
  EXPECT_THAT(result.detail(), HasSubstr("without a result (exit code 0)"));
}

TEST_F(RunnerTest, BadExitAfterAnOkResultIsAFailure) {
  WriteProbe(absl::StrCat("cat ", GoodResult(), " >&3; exit 3"));
  const v1::Result result = Run();
  EXPECT_EQ(result.outcome(), v1::OUTCOME_FAILED);
  EXPECT_THAT(result.detail(), HasSubstr("exit code 3"));
}

TEST_F(RunnerTest, CutFrameIsAFailure) {
  WriteProbe(absl::StrCat("head -c 7 ", GoodResult(), " >&3"));
  const v1::Result result = Run();
  EXPECT_EQ(result.outcome(), v1::OUTCOME_FAILED);
  EXPECT_THAT(result.detail(), EndsWith("inside a frame"));
}

TEST_F(RunnerTest, GarbageIsAFailureAtOnce) {
  const std::string oversize("\xff\xff\xff\x7f", 4);
  const std::string no_reply = EncodeFrame("\xff\xff\xff");
  const std::string empty_reply = EncodeFrame("");
  for (const std::string& bytes : {oversize, no_reply, empty_reply}) {
    WriteProbe(absl::StrCat("cat ", Put("garbage", bytes), " >&3; sleep 600"));
    const v1::Result result = Run();
    EXPECT_EQ(result.outcome(), v1::OUTCOME_FAILED);
    EXPECT_THAT(result.detail(), HasSubstr("broke its protocol"));
    EXPECT_LT(result.elapsed().seconds(), 10);
  }
}

TEST_F(RunnerTest, ResultsThatCannotBeAreFailures) {
  v1::ProbeReply not_finite;
  not_finite.mutable_result()->set_outcome(v1::OUTCOME_OK);
  v1::Measurement* m = not_finite.mutable_result()->add_measurements();
  m->set_metric(v1::METRIC_LATENCY);
  m->set_value(std::nan(""));
  v1::ProbeReply nothing_measured;
  nothing_measured.mutable_result()->set_outcome(v1::OUTCOME_OK);
  v1::ProbeReply no_outcome;
  no_outcome.mutable_result();
  for (const v1::ProbeReply& reply : {not_finite, nothing_measured, no_outcome}) {
    WriteProbe(absl::StrCat("cat ", PutReply("reply", reply), " >&3"));
    EXPECT_EQ(Run().outcome(), v1::OUTCOME_FAILED) << reply.ShortDebugString();
  }
}

TEST_F(RunnerTest, FrameAfterTheResultAndSecondRendezvousAreFailures) {
  v1::ProbeReply offer;
  offer.set_rendezvous("here");
  const std::string file = PutReply("offer", offer);
  WriteProbe(absl::StrCat("cat ", GoodResult(), " ", GoodResult(), " >&3"));
  EXPECT_EQ(Run().outcome(), v1::OUTCOME_FAILED);
  WriteProbe(absl::StrCat("cat ", file, " ", file, " ", GoodResult(), " >&3"));
  EXPECT_EQ(Run().outcome(), v1::OUTCOME_FAILED);
  EXPECT_THAT(rendezvous_, ElementsAre("here"));
}

TEST_F(RunnerTest, OversizeRendezvousIsAFailureAndIsNotHandedOn) {
  v1::ProbeReply offer;
  offer.set_rendezvous(std::string(4097, 'x'));
  WriteProbe(absl::StrCat("cat ", PutReply("offer", offer), " ", GoodResult(), " >&3"));
  EXPECT_EQ(Run().outcome(), v1::OUTCOME_FAILED);
  EXPECT_THAT(rendezvous_, IsEmpty());
}

TEST_F(RunnerTest, ClosingDescriptorThreeWithoutAResultIsAFailureAtOnce) {
  WriteProbe("exec 3>&-; sleep 600");
  const v1::Result result = Run();
  EXPECT_EQ(result.outcome(), v1::OUTCOME_FAILED);
  EXPECT_THAT(result.detail(), HasSubstr("closed descriptor 3"));
  EXPECT_LT(result.elapsed().seconds(), 10);
}

TEST_F(RunnerTest, OutputOfAnyLengthKeepsItsLast16KiB) {
  WriteProbe(absl::StrCat("head -c 100000000 /dev/zero; printf END; cat ", GoodResult(), " >&3"));
  const v1::Result result = Run();
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.detail();
  EXPECT_EQ(result.tool_output().size(), 16U << 10);
  EXPECT_THAT(result.tool_output(), EndsWith("END"));
}

TEST_F(RunnerTest, FloodOfOutputDoesNotOutliveTheDeadline) {
  WriteProbe("exec cat /dev/zero");
  const v1::Result result = Run(absl::Milliseconds(300));
  EXPECT_EQ(result.outcome(), v1::OUTCOME_TIMED_OUT);
  EXPECT_LT(result.elapsed().seconds(), 10);
}

TEST_F(RunnerTest, HangThatIgnoresSigtermIsKilledAndTimesOut) {
  WriteProbe(absl::StrCat("trap '' TERM; cat ", Phase("latency"), " >&3; while :; do sleep 600; done"));
  const v1::Result result = Run(absl::Milliseconds(500));
  EXPECT_EQ(result.outcome(), v1::OUTCOME_TIMED_OUT);
  EXPECT_EQ(result.phase(), "latency");
  EXPECT_LT(result.elapsed().seconds(), 10);
}

TEST_F(RunnerTest, ResultStandsWhenTheProbeThenHangs) {
  WriteProbe(absl::StrCat("cat ", GoodResult(), " >&3; sleep 600"));
  ProbeRunner runner({.probe_dir = dir_, .exit_patience = absl::Milliseconds(50)}, reaper_);
  const v1::Result result = runner.Run(Request(absl::Seconds(60)), nullptr, cancel_);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.detail();
  EXPECT_LT(result.elapsed().seconds(), 30);
}

TEST_F(RunnerTest, CancelEndsARunFromAnotherThread) {
  v1::ProbeReply offer;
  offer.set_rendezvous("here");
  WriteProbe(absl::StrCat("cat ", PutReply("offer", offer), " >&3; sleep 600"));
  ProbeRunner runner({.probe_dir = dir_}, reaper_);
  std::thread canceller;
  const v1::Result result = runner.Run(
      Request(absl::Minutes(10)),
      [&](const std::string&) { canceller = std::thread([&] { cancel_.Cancel(); }); }, cancel_);
  canceller.join();
  EXPECT_EQ(result.outcome(), v1::OUTCOME_FAILED);
  EXPECT_THAT(result.detail(), HasSubstr("cancelled"));
}

TEST_F(RunnerTest, CancelledBeforehandStartsNothing) {
  WriteProbe(absl::StrCat("touch ", dir_, "/started"));
  cancel_.Cancel();
  EXPECT_THAT(Run().detail(), HasSubstr("cancelled"));
  EXPECT_FALSE(std::filesystem::exists(absl::StrCat(dir_, "/started")));
}

TEST_F(RunnerTest, DescendantsThatLeftTheGroupDieToo) {
  const std::string pids = absl::StrCat(dir_, "/pids");
  WriteProbe(absl::StrCat("(setsid sh -c 'trap \"\" TERM; echo $$ >> ", pids, "; sleep 600 & sleep 600' &)\n",
                          "while [ ! -s ", pids, " ]; do sleep 0.01; done; cat ", GoodResult(), " >&3"));
  const v1::Result result = Run();
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.detail();
  EXPECT_EQ(kill(std::stoi(FileContent(pids)), 0), -1);
}

// A timed-out probe must leave neither zombies nor strays: some of these leave their group and ignore
// SIGTERM, all have grandchildren.
TEST_F(RunnerTest, ThousandTimeoutsWithGrandchildrenLeaveNothing) {
  WriteProbe(
      "case $(( $$ % 4 )) in\n"
      "0) trap '' TERM; sleep 600 & wait; sleep 600 ;;\n"
      "1) setsid sleep 600 & (sleep 600 &) ; wait ;;\n"
      "2) (setsid sh -c 'trap \"\" TERM; sleep 600 & sleep 600' &) ; sleep 600 ;;\n"
      "3) sleep 600 ;;\n"
      "esac\n");
  const char* scale = std::getenv("WEFT_TEST_TIMEOUTS");
  const int runs = scale ? std::atoi(scale) : 1000;
  std::atomic<int> next{0}, timed_out{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      ProbeRunner runner({.probe_dir = dir_, .grace = absl::Milliseconds(20)}, reaper_);
      while (next.fetch_add(1) < runs) {
        const v1::Result result = runner.Run(Request(absl::Milliseconds(30)), nullptr, cancel_);
        if (result.outcome() == v1::OUTCOME_TIMED_OUT) timed_out.fetch_add(1);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(timed_out.load(), runs);
  EXPECT_THAT(OwnChildren(), IsEmpty());
}

}  // namespace
}  // namespace weft
