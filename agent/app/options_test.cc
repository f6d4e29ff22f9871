#include "agent/app/options.h"

#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "agent/app/app.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

std::string WriteTemporary(const std::string& text) {
  static int count = 0;
  const std::string path = absl::StrCat(::testing::TempDir(), "/agent_options_", getpid(), "_", ++count);
  std::ofstream(path) << text;
  return path;
}

v1::AgentConfig Good() {
  v1::AgentConfig config;
  config.set_server_address("weft.example:7443");
  config.set_state_dir("/var/lib/weft-agent");
  config.set_insecure(true);
  return config;
}

std::string Problems(v1::AgentConfig config) { return std::string(CheckAgentConfig(&config).message()); }

TEST(AgentOptionsTest, FlagsWinOverTheFile) {
  AgentFlags flags;
  flags.config_file = WriteTemporary("server_address: a:1\nstate_dir: /s\nlabels:\n  rack: r1\n  leaf: l1\n");
  flags.server = "b:2";
  flags.labels = {"rack=r2"};
  const absl::StatusOr<v1::AgentConfig> config = LoadAgentConfig(flags);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server_address(), "b:2");
  EXPECT_EQ(config->state_dir(), "/s");
  EXPECT_EQ(config->labels().at("rack"), "r2");
  EXPECT_EQ(config->labels().at("leaf"), "l1");
}

TEST(AgentOptionsTest, AnUnknownKeyIsRefusedWithItsLine) {
  AgentFlags flags;
  flags.config_file = WriteTemporary("server_address: a:1\nstat_dir: /s\n");
  EXPECT_THAT(std::string(LoadAgentConfig(flags).status().message()), HasSubstr("2"));
  EXPECT_THAT(std::string(LoadAgentConfig(flags).status().message()), HasSubstr("stat_dir"));
}

TEST(AgentOptionsTest, AllProblemsComeAtOnce) {
  v1::AgentConfig config;
  config.set_server_address("no port");
  (*config.mutable_labels())["Rack"] = "r1";
  config.set_hostname("with space");
  const std::string problems = Problems(config);
  for (const char* part : {"server_address", "tls is missing", "Rack", "hostname", "state_dir"})
    EXPECT_THAT(problems, HasSubstr(part));
}

TEST(AgentOptionsTest, AGoodConfigurationPassesAndGetsItsDefaults) {
  v1::AgentConfig config = Good();
  EXPECT_TRUE(CheckAgentConfig(&config).ok());
  EXPECT_EQ(config.spool_bytes(), 64u << 20);
}

TEST(AgentOptionsTest, ServerAddressesOfEveryKindAreUnderstood) {
  for (const char* good : {"a:1", "127.0.0.1:7443", "[::1]:7443", "unix:///run/weft.sock", "dns:///a:1"}) {
    v1::AgentConfig config = Good();
    config.set_server_address(good);
    EXPECT_EQ(Problems(config), "") << good;
  }
  for (const char* bad : {"a", "a:", ":1", "a:0", "a:65536", "a:b"}) {
    v1::AgentConfig config = Good();
    config.set_server_address(bad);
    EXPECT_NE(Problems(config), "") << bad;
  }
}

TEST(AgentOptionsTest, PlainTextMustBeAskedForAndExcludesTls) {
  v1::AgentConfig config = Good();
  config.mutable_tls()->set_ca_file("ca.pem");
  EXPECT_THAT(Problems(config), HasSubstr("all three"));
  EXPECT_THAT(Problems(config), HasSubstr("exclude"));
}

TEST(AgentOptionsTest, ProbesGetTheSitesLibrariesAndSettingsAndNothingElse) {
  v1::AgentConfig config = Good();
  config.set_nccl_library("/opt/venv/lib/libnccl.so.2");
  for (const char* name : {"NCCL_HOSTID", "FI_PROVIDER", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH"})
    (*config.mutable_probe_environment())[name] = "x";
  EXPECT_EQ(Problems(config), "");
  config.set_nccl_library("libnccl.so.2");
  EXPECT_THAT(Problems(config), HasSubstr("nccl_library"));
  for (const char* name : {"LD_PRELOAD", "PATH", "NCCL_", "nccl_x", "WEFT_AGENT_PID", ""}) {
    config = Good();
    (*config.mutable_probe_environment())[name] = "x";
    EXPECT_THAT(Problems(config), HasSubstr("probe_environment")) << name;
  }
  config = Good();
  (*config.mutable_probe_environment())["NCCL_A"] = "two\nlines";
  EXPECT_THAT(Problems(config), HasSubstr("NCCL_A"));
}

TEST(EmulatedRateTest, OnlyOneNumberAboveZeroIsARate) {
  EXPECT_EQ(*ReadEmulatedRate(""), 0);
  EXPECT_EQ(*ReadEmulatedRate(WriteTemporary("125000000\n")), 125e6);
  for (const char* bad : {"", "0", "-1", "nan", "inf", "1 2", "fast"})
    EXPECT_FALSE(ReadEmulatedRate(WriteTemporary(bad)).ok()) << bad;
  EXPECT_FALSE(ReadEmulatedRate("/nonexistent").ok());
}

}  // namespace
}  // namespace weft
