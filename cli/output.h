// What goes to standard output: tables for people, JSON for programs. Pure but for StandardOutput.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "google/protobuf/struct.pb.h"

namespace weft::cli {

enum class Format { kTable, kWide, kJson };

struct OutputOptions {
  Format format = Format::kTable;
  bool terminal = false;  // aligned and cut to `width`; otherwise tab-separated, nothing cut
  bool color = false;
  size_t width = 80;  // columns of the terminal
};

// What standard output is: a terminal or not, its width, and whether colour is wanted (a terminal, TERM not
// "dumb", neither NO_COLOR nor WEFT_NO_COLOR set to anything, `no_color` false).
OutputOptions StandardOutput(Format format, bool no_color);

enum class Color { kNone, kGood, kBad, kDoubt };

struct Column {
  std::string name;
  bool right = false;    // numbers
  bool wide = false;     // only with -o wide
  bool may_cut = false;  // cut first when the terminal is narrow
};

struct Cell {
  Cell(std::string t, Color c = Color::kNone) : text(std::move(t)), color(c) {}  // NOLINT: a cell is a text
  Cell(const char* t) : text(t) {}                                               // NOLINT
  std::string text;
  Color color = Color::kNone;
};

// A table. Texts may come from anywhere: control characters are escaped, empty cells become "-".
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // One cell per column.
  void AddRow(std::vector<Cell> cells);
  bool empty() const { return rows_.empty(); }
  // With a header line and a line break at the end.
  std::string Render(const OutputOptions& options) const;

 private:
  std::string RenderAligned(const OutputOptions& options) const;
  std::string RenderTabs(const OutputOptions& options) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

// Name and value per line, for one thing.
class Card {
 public:
  // An empty value is left out.
  void Add(std::string name, std::string value);
  std::string Render(const OutputOptions& options) const;

 private:
  std::vector<std::pair<std::string, std::string>> lines_;
};

// The protobuf JSON mapping, indented, with zeros and empty lists spelled out; a line break at the end.
absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message);

// A message that prints as an object of these texts, for answers that no server gives.
google::protobuf::Struct JsonObject(const std::map<std::string, std::string>& texts);

// The value's name without the prefix of its enum: "DEGRADED"; "UNKNOWN" for UNSPECIFIED and new values.
std::string ShortName(absl::string_view name, absl::string_view prefix);

}  // namespace weft::cli
