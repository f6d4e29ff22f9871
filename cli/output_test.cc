#include "cli/output.h"

#include <algorithm>
#include <clocale>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "weft/v1/fleet.pb.h"

namespace weft::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

OutputOptions Terminal(size_t width) { return {Format::kTable, /*terminal=*/true, /*color=*/false, width}; }

Table TwoNodes() {
  Table table({{"NODE"}, {"BW", /*right=*/true}, {"ID", false, /*wide=*/true}});
  table.AddRow({"gpu001", "9", "id-1"});
  table.AddRow({"gpu2", "120", ""});
  return table;
}

TEST(TableTest, PipedTablesAreTabSeparated) {
  EXPECT_EQ(TwoNodes().Render({}), "NODE\tBW\ngpu001\t9\ngpu2\t120\n");
}

TEST(TableTest, WideShowsAllColumns) {
  OutputOptions wide;
  wide.format = Format::kWide;
  EXPECT_EQ(TwoNodes().Render(wide), "NODE\tBW\tID\ngpu001\t9\tid-1\ngpu2\t120\t-\n");
}

TEST(TableTest, TerminalsGetAlignedColumns) {
  EXPECT_EQ(TwoNodes().Render(Terminal(80)), "NODE     BW\ngpu001    9\ngpu2    120\n");
}

TEST(TableTest, OnlyTerminalsCut) {
  Table table({{"NODE"}, {"REASON", false, false, /*may_cut=*/true}});
  table.AddRow({"gpu001", std::string(100, 'x')});
  EXPECT_THAT(table.Render(Terminal(40)), Not(HasSubstr(std::string(41, 'x'))));
  EXPECT_THAT(table.Render({}), HasSubstr(std::string(100, 'x')));
}

TEST(TableTest, NamesCannotSteerTheTerminal) {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  for (const char* locale : {"C", "C.UTF-8"}) {
    ASSERT_NE(std::setlocale(LC_ALL, locale), nullptr);
    for (const bool terminal : {false, true}) {
      Table table({{"NODE"}, {"SUMMARY"}});
      table.AddRow({"evil\x1b[31m\nnode", "a\tb\xc2\x9b\xff\x7f"});
      OutputOptions options = Terminal(80);
      options.terminal = terminal;
      const std::string out = table.Render(options);
      EXPECT_THAT(out, HasSubstr("evil\\x1b[31m\\x0anode"));
      EXPECT_THAT(out, HasSubstr("a\\x09b"));
      for (const char* steering : {"\x1b", "\x7f", "\xc2\x9b", "\t\x62"}) {
        EXPECT_THAT(out, Not(HasSubstr(steering))) << locale << terminal;
      }
      EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 2);
    }
  }
  std::setlocale(LC_ALL, before.c_str());
}

TEST(TableTest, OtherScriptsStayReadable) {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  ASSERT_NE(std::setlocale(LC_ALL, "C.UTF-8"), nullptr);
  Table table({{"REASON"}, {"BY"}});
  table.AddRow({"K\xc3\xbchlung", "x"});
  EXPECT_EQ(table.Render(Terminal(80)), "REASON   BY\nK\xc3\xbchlung  x\n");
  EXPECT_EQ(table.Render({}), "REASON\tBY\nK\xc3\xbchlung\tx\n");
  std::setlocale(LC_ALL, before.c_str());
}

TEST(TableTest, ColorOnlyWhenAsked) {
  Table table({{"STATE"}});
  table.AddRow({Cell("OK", Color::kGood)});
  OutputOptions options = Terminal(80);
  EXPECT_THAT(table.Render(options), Not(HasSubstr("\x1b")));
  options.color = true;
  EXPECT_THAT(table.Render(options), HasSubstr("\x1b[32m"));
  options.terminal = false;
  EXPECT_THAT(table.Render(options), Not(HasSubstr("\x1b")));
}

TEST(CardTest, LeavesOutWhatIsEmptyAndEscapes) {
  Card card;
  card.Add("node", "a\x1b");
  card.Add("nothing", "");
  card.Add("state", "OK");
  EXPECT_EQ(card.Render({}), "node\ta\\x1b\nstate\tOK\n");
  EXPECT_EQ(card.Render(Terminal(80)), "node   a\\x1b\nstate  OK\n");
}

TEST(JsonTest, IsTheProtobufMappingWithZerosSpelledOut) {
  v1::NodeStatus status;
  status.mutable_node()->set_hostname("a\x1b");
  status.set_state(v1::NODE_STATE_OK);
  status.mutable_last_seen_time()->set_seconds(1767225600);
  const std::string json = *ToJson(status);
  EXPECT_THAT(json, HasSubstr("\"state\": \"NODE_STATE_OK\""));
  EXPECT_THAT(json, HasSubstr("\"lastSeenTime\": \"2026-01-01T00:00:00Z\""));
  EXPECT_THAT(json, HasSubstr("\"muted\": false"));
  EXPECT_THAT(json, HasSubstr("a\\u001b"));
}

TEST(ShortNameTest, UnspecifiedIsUnknown) {
  EXPECT_EQ(ShortName("NODE_STATE_OK", "NODE_STATE_"), "OK");
  EXPECT_EQ(ShortName("NODE_STATE_UNSPECIFIED", "NODE_STATE_"), "UNKNOWN");
  EXPECT_EQ(ShortName("", "NODE_STATE_"), "UNKNOWN");
}

}  // namespace
}  // namespace weft::cli
