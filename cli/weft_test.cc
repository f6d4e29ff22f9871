// The real `weft` program against the real operator services over a real store.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "server/api/services.h"
#include "server/api/test_fleet.h"

namespace weft::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

struct Outcome {
  int code = -1;  // exit code; -1 when it did not exit
  std::string out;
  std::string err;
};

std::string Content(const std::string& path) {
  std::ifstream file(path);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

using Environment = std::map<std::string, std::string>;

// Runs the program with nothing in its environment but `environment`.
Outcome RunWeft(std::vector<std::string> arguments, const Environment& environment) {
  const char* bin = std::getenv("WEFT_BIN_DIR");
  EXPECT_NE(bin, nullptr) << "run through ctest, or set WEFT_BIN_DIR";
  if (bin == nullptr) return {};
  TestFolder folder;
  const std::string out = folder.path() + "/out", err = folder.path() + "/err";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_CREAT | O_WRONLY, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_CREAT | O_WRONLY, 0600);
  const std::string program = absl::StrCat(bin, "/weft");
  arguments.insert(arguments.begin(), "weft");
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) variables.push_back(absl::StrCat(name, "=", value));
  pid_t pid = 0;
  int status = 0;
  const int failed = posix_spawn(&pid, program.c_str(), &actions, nullptr, Pointers(arguments).data(),
                                 Pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(failed, 0) << program;
  if (failed != 0 || waitpid(pid, &status, 0) != pid) return {};
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, Content(out), Content(err)};
}

class WeftTest : public ::testing::Test {
 protected:
  // The server's clock is a little ahead, so that a window from now on is open.
  WeftTest() : fleet_(Clock::Real().Now() + absl::Minutes(1)), services_(fleet_.queries()) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.AddListeningPort(absl::StrCat("unix:", folder_.path(), "/socket"),
                             grpc::InsecureServerCredentials());
    services_.Register(builder);
    server_ = builder.BuildAndStart();
    environment_ = {{"WEFT_SERVER", absl::StrCat("127.0.0.1:", port_)},
                    {"WEFT_INSECURE", "1"},
                    {"USER", "ann"},
                    {"TZ", "Europe/Berlin"}};
    // Where a sanitizer watches, it keeps its settings.
    if (const char* options = std::getenv("LSAN_OPTIONS")) environment_["LSAN_OPTIONS"] = options;
  }
  ~WeftTest() override { server_->Shutdown(); }

  void Populate() {
    fleet_.AddNode("id-1", "gpu001");
    fleet_.AddNode("id-2", "gpu002");
    fleet_.AddNode("id-3", "gpu003", "r2");
    fleet_.ConnectAgent("id-1");
    fleet_.ConnectAgent("id-2");
    fleet_.AddRun("run-1", "id-1", "id-2");
    fleet_.AddEpisode("e1", {"id-2"});
    fleet_.view().SetLevels(
        {{"id-1", "fabric_write", Metric::kWriteBandwidth, 25e9, 25e9, fleet_.clock().Now()},
         {"id-2", "fabric_write", Metric::kWriteBandwidth, 15e9, 25e9, fleet_.clock().Now()}});
  }
  // `line` is split at spaces.
  Outcome Weft(const std::string& line) {
    return RunWeft(absl::StrSplit(line, ' ', absl::SkipEmpty()), environment_);
  }

  TestFolder folder_;
  TestFleet fleet_;
  OperatorServices services_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  Environment environment_;
};

TEST_F(WeftTest, EveryQueryAnswersInAllFormats) {
  Populate();
  for (const char* command : {"node list", "node get gpu001", "node slow", "node history gpu001", "run list",
                              "run get run-1", "version", "check node gpu001", "finding list",
                              "finding get e1", "delivery list", "maintenance list"}) {
    for (const char* format : {"table", "wide", "json"}) {
      const Outcome outcome = Weft(absl::StrCat(command, " -o ", format));
      EXPECT_EQ(outcome.code, 0) << command << ": " << outcome.err;
      EXPECT_NE(outcome.out, "") << command;
      EXPECT_EQ(outcome.err, "") << command;
      EXPECT_THAT(outcome.out, Not(HasSubstr("\x1b"))) << command;
    }
  }
}

TEST_F(WeftTest, ServerStatusCountsNodesAndAgents) {
  Populate();
  EXPECT_THAT(Weft("server status").out, AllOf(HasSubstr("nodes\t3\n"), HasSubstr("connected agents\t2\n"),
                                               HasSubstr("results stored\t2\n")));
  EXPECT_THAT(Weft("server status -o json").out, HasSubstr("\"resultsStored\": \"2\""));
}

TEST_F(WeftTest, PipedTablesAreTabSeparatedAndComplete) {
  Populate();
  const std::vector<std::string> lines = absl::StrSplit(Weft("node list").out, '\n');
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0], "NODE\tSTATE\tBW%\tBANDWIDTH\tEXPECTED\tAGE\tMUTED\tFINDINGS");
  EXPECT_THAT(lines[1], StartsWith("gpu001\tOK\t100%\t25.0 GB/s\t25.0 GB/s\t0s\t-\t0"));
  EXPECT_THAT(lines[2], StartsWith("gpu002\tDEGRADED\t60%\t15.0 GB/s\t25.0 GB/s\t0s\t-\t1"));
  EXPECT_THAT(lines[3], StartsWith("gpu003\tMISSING\t-\t-\t-\t-\t-\t0"));
}

TEST_F(WeftTest, JsonIsTheWholeMessageAndNothingElse) {
  Populate();
  v1::ListNodesResponse nodes;
  const auto status = google::protobuf::util::JsonStringToMessage(Weft("node list -o json").out, &nodes);
  ASSERT_TRUE(status.ok()) << status.ToString();
  ASSERT_EQ(nodes.nodes_size(), 3);
  EXPECT_EQ(nodes.nodes(1).state(), v1::NODE_STATE_DEGRADED);
}

TEST_F(WeftTest, ListsLongerThanAPageAreReadToTheEnd) {
  for (int i = 0; i < 1005; ++i) fleet_.AddNode(absl::StrCat("id-", i), absl::StrCat("n", 10000 + i));
  const Outcome all = Weft("node list");
  EXPECT_EQ(std::count(all.out.begin(), all.out.end(), '\n'), 1006);
  const Outcome some = Weft("node list --limit 3");
  EXPECT_EQ(std::count(some.out.begin(), some.out.end(), '\n'), 4);
  EXPECT_THAT(some.err, HasSubstr("--limit 0"));
}

TEST_F(WeftTest, HelpIsOfTheProgramOrOfTheCommandAskedFor) {
  EXPECT_THAT(Weft("help").out, HasSubstr("maintenance"));
  EXPECT_THAT(Weft("help node").out, HasSubstr("history"));
}

TEST_F(WeftTest, ExitCodesAreThePromisedOnes) {
  Populate();
  const std::map<std::string, int> expected = {{"version", 0},
                                               {"--version", 0},
                                               {"run get nothing", 3},
                                               {"run list --since yesterday", 2},
                                               {"node remove nobody", 3},
                                               {"node remove", 2},
                                               {"", 0},
                                               {"help", 0},
                                               {"help exit-codes", 0},
                                               {"node list --help", 0},
                                               {"help node", 0},
                                               {"help exitcodes", 2},
                                               {"node", 2},
                                               {"node list --wrong", 2},
                                               {"node get", 2},
                                               {"node list -o xml", 2},
                                               {"node list --timeout never", 2},
                                               {"node slow --below 7", 2},
                                               {"node history gpu001 --since yesterday", 2},
                                               {"maintenance create --nodes gpu001 --for 1h", 2},
                                               {"maintenance create --nodes gpu001 --for 40d --reason x", 2},
                                               {"node list --insecure --tls-ca x", 2},
                                               {"node get nobody", 3},
                                               {"finding get nothing", 3},
                                               {"maintenance end mw-00000000", 3},
                                               {"server status --server 127.0.0.1:1 --timeout 5s", 5}};
  for (const auto& [line, code] : expected) {
    const Outcome outcome = Weft(line);
    EXPECT_EQ(outcome.code, code) << line << "\n" << outcome.err;
    if (code != 0) {
      EXPECT_EQ(outcome.out, "") << line;
      EXPECT_THAT(outcome.err, StartsWith("error: ")) << line;
    }
  }
}

TEST_F(WeftTest, AnArgumentThatIsNotUtf8IsRefusedInOneLine) {
  Populate();
  for (const char* line : {"node get gpu\xff", "finding get \xc3", "run list --node \xe9", "help \xff",
                           "maintenance create --nodes gpu001 --for 1h --reason caf\xe9", "node \xff"}) {
    const Outcome outcome = Weft(line);
    EXPECT_EQ(outcome.code, 2) << line;
    EXPECT_EQ(outcome.out, "") << line;
    EXPECT_THAT(outcome.err, MatchesRegex("error: weft: argument [0-9]+ .* is not valid UTF-8\n")) << line;
  }
}

TEST_F(WeftTest, ErrorsSayWhatAndWhatToTry) {
  Populate();
  EXPECT_THAT(Weft("nod list").err, HasSubstr("unknown command \"nod\". Did you mean node?"));
  EXPECT_THAT(Weft("node").err, HasSubstr("needs one of: list, get, slow, history, remove"));
  EXPECT_THAT(Weft("node --wrong").err, HasSubstr("--wrong"));
  EXPECT_THAT(Weft("node lst").err, HasSubstr("unknown command \"lst\". Did you mean list?"));
  EXPECT_THAT(Weft("node get gpu01").err, HasSubstr("Did you mean gpu001"));
  EXPECT_THAT(Weft("node get nobody -v").err, HasSubstr("[NOT_FOUND]"));
  EXPECT_THAT(Weft("help exit-code").err, HasSubstr("Did you mean exit-codes?"));
  EXPECT_THAT(Weft("server status --server 127.0.0.1:1").err,
              AllOf(HasSubstr("cannot reach weft server at 127.0.0.1:1"), HasSubstr("Is it running?")));
  EXPECT_THAT(Weft("server status --server no-such-host.invalid --timeout 5s").err,
              HasSubstr("no-such-host.invalid:7443"));
}

TEST_F(WeftTest, AFailedConnectionIsSaidByWeftAlone) {
  for (const char* server : {"127.0.0.1:1", "no-such-host.invalid", "unix:/no/socket"}) {
    const Outcome outcome = Weft(absl::StrCat("server status --timeout 5s --server ", server));
    EXPECT_THAT(outcome.err, MatchesRegex("error: [^\n]*\n")) << server;
  }
  environment_.erase("WEFT_INSECURE");
  EXPECT_THAT(Weft("server status --timeout 5s").err, MatchesRegex("error: [^\n]*\n")) << "TLS to plain text";
}

TEST_F(WeftTest, ProxiesOfTheEnvironmentAreIgnored) {
  Populate();
  for (const char* name : {"http_proxy", "https_proxy", "grpc_proxy"}) {
    environment_[name] = "http://127.0.0.1:1";
  }
  EXPECT_EQ(Weft("node list").code, 0);
  EXPECT_EQ(Weft(absl::StrCat("node list --server localhost:", port_)).code, 0);
  EXPECT_EQ(Weft(absl::StrCat("node list --server unix:", folder_.path(), "/socket")).code, 0);
  environment_["no_proxy"] = "10.0.0.0/8";
  EXPECT_EQ(Weft("node list").code, 0);
}

TEST_F(WeftTest, NamesFromTheServerCannotSteerTheTerminal) {
  fleet_.AddNode("id-9", "<img src=x onerror=alert(1)>\x1b[2J\nforged");
  Episode episode = fleet_.AddEpisode("e9", {"id-9"});
  episode.finding.summary = "id-9 is \x1b]0;slow\x07";
  fleet_.PutEpisode(episode);
  for (const char* command : {"node list", "node get id-9", "finding list", "finding get e9",
                              "check node id-9", "node list -o json", "node get no\x1bne"}) {
    const Outcome outcome = Weft(command);
    EXPECT_THAT(outcome.out + outcome.err,
                AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\x07")), Not(HasSubstr("\nforged"))))
        << command;
  }
  EXPECT_THAT(Weft("node list").out, HasSubstr("alert(1)>\\x1b[2J\\x0aforged"));
}

TEST_F(WeftTest, CheckNodeHasItsOwnExitCodes) {
  Populate();
  const std::map<std::string, int> expected = {{"gpu001", 0},
                                               {"gpu001 --exit-style npd", 0},
                                               {"gpu001 --exit-style bool", 0},
                                               {"gpu002", 1},
                                               {"gpu002 --exit-style npd", 1},
                                               {"gpu003", 3},
                                               {"gpu003 --exit-style npd", 2},
                                               {"gpu003 --exit-style bool", 1},
                                               {"nobody", 3},
                                               {"nobody --exit-style npd", 2},
                                               {"gpu001 --server 127.0.0.1:1", 3},
                                               {"gpu001 --server 127.0.0.1:1 --exit-style npd", 2},
                                               {"gpu001 --server 127.0.0.1:1 --exit-style bool", 1}};
  for (const auto& [arguments, code] : expected) {
    const Outcome outcome = Weft("check node " + arguments);
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.out;
    EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1) << arguments;
  }
  EXPECT_EQ(Weft("check node gpu001").out, "OK: weft: gpu001: 25.0 GB/s, 100% of expected 25.0 GB/s\n");
  EXPECT_THAT(Weft("check node self").out, StartsWith("UNKNOWN: weft: "));
}

TEST_F(WeftTest, VersionAndCheckAnswerInJsonToo) {
  Populate();
  EXPECT_EQ(Weft("--version").out, Weft("version").out);
  EXPECT_THAT(Weft("version").out, MatchesRegex("weft [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  EXPECT_THAT(Weft("version -o json").out, MatchesRegex("\\{\\s*\"version\": \"[0-9.]+\"\\s*\\}\\s*"));
  const Outcome slow = Weft("check node gpu002 -o json");
  EXPECT_EQ(slow.code, 1);
  EXPECT_THAT(slow.out, AllOf(HasSubstr("\"verdict\": \"WARNING\""), HasSubstr("\"node\": \"gpu002\""),
                              HasSubstr("\"detail\": ")));
  const Outcome unreachable = Weft("check node gpu002 -o json --server 127.0.0.1:1");
  EXPECT_EQ(unreachable.code, 3);
  EXPECT_THAT(unreachable.out, HasSubstr("\"verdict\": \"UNKNOWN\""));
}

TEST_F(WeftTest, RunsAreFoundByProbeTimeAndId) {
  Populate();
  fleet_.AddRun("run-2", "id-1", "id-3");
  EXPECT_THAT(Weft("run list --probe fabric_write --since 1h -o wide").out,
              AllOf(HasSubstr("run-1"), HasSubstr("run-2")));
  EXPECT_THAT(Weft("run list --probe other -o wide").out, Not(HasSubstr("run-1")));
  EXPECT_THAT(Weft("run list --node gpu003 --probe fabric_write -o wide").out,
              AllOf(HasSubstr("run-2"), Not(HasSubstr("run-1"))));
  EXPECT_THAT(Weft("run list --since 2100-01-01T00:00:00Z -o wide").out, Not(HasSubstr("run-1")));
  EXPECT_THAT(Weft("run get run-1").out,
              AllOf(HasSubstr("run\trun-1\n"), HasSubstr("\n0\tgpu001\tOK\t25.0 GB/s"),
                    HasSubstr("\n1\tgpu002\tOK\t25.0 GB/s")));
}

TEST_F(WeftTest, ANodeThatIsAwayIsRemovedAndAConnectedOneIsNot) {
  Populate();
  const Outcome connected = Weft("node remove gpu001 --by bob");
  EXPECT_EQ(connected.code, 1);
  EXPECT_THAT(connected.err, HasSubstr("the agent of gpu001 (id-1) is connected; stop it first"));
  const Outcome removed = Weft("node remove gpu003 --by bob");
  EXPECT_EQ(removed.code, 0) << removed.err;
  EXPECT_THAT(removed.err, HasSubstr("Removed gpu003 (id-3); 0 open findings"));
  EXPECT_THAT(Weft("node list").out, Not(HasSubstr("gpu003")));
  EXPECT_EQ(Weft("node get gpu003").code, 3);
}

TEST_F(WeftTest, AWindowIsCreatedListedAndEnded) {
  Populate();
  const Outcome created = Weft("maintenance create --nodes gpu[001-002] --for 2h --reason recabling");
  ASSERT_EQ(created.code, 0) << created.err;
  EXPECT_THAT(created.out, MatchesRegex("mw-[0-9a-f]{8}\n"));
  EXPECT_THAT(created.err,
              MatchesRegex("Muted 2 nodes until .* CES?T\\. Undo: weft maintenance end mw-.*\n"));
  const std::string id(absl::StripSuffix(created.out, "\n"));
  EXPECT_THAT(Weft("maintenance list").out, AllOf(HasSubstr(id), HasSubstr("ACTIVE"), HasSubstr("\tann\t")));
  EXPECT_THAT(Weft("node get gpu001").out, HasSubstr("muted\tyes"));
  EXPECT_EQ(Weft(absl::StrCat("maintenance end ", id, " --revision 9")).code, 1);
  const Outcome ended = Weft(absl::StrCat("maintenance end ", id));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("ENDED"));
  EXPECT_THAT(Weft("maintenance list").out, Not(HasSubstr(id)));
  EXPECT_THAT(Weft("maintenance list --all").out, HasSubstr(id));
}

TEST_F(WeftTest, WeeklyWindowsAndLabelsReachTheServer) {
  Populate();
  const std::string until =
      absl::FormatTime("%Y-%m-%d", Clock::Real().Now() + absl::Hours(24 * 60), absl::UTCTimeZone());
  const Outcome created = Weft(
      absl::StrCat("maintenance create --match rack=r1,r9 --match probe=fabric* --weekly Mon-Fri --at 22:00 "
                   "--for 6h --tz Europe/Berlin --reason slot --by bob -o json --until ",
                   until));
  ASSERT_EQ(created.code, 0) << created.err;
  v1::CreateMaintenanceWindowResponse response;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(created.out, &response).ok());
  EXPECT_EQ(response.window().matchers_size(), 2);
  EXPECT_EQ(response.window().weekly().weekdays_size(), 5);
  EXPECT_EQ(response.window().created_by(), "bob");
  EXPECT_EQ(response.window().matched_hostnames_size(), 2);
}

TEST_F(WeftTest, AWindowThatMatchesNobodyWarns) {
  const Outcome created = Weft("maintenance create --nodes gpu9 --for 1h --reason x");
  EXPECT_EQ(created.code, 0);
  EXPECT_THAT(created.err, HasSubstr("warning: no known node matches"));
}

}  // namespace
}  // namespace weft::cli
