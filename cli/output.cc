#include "cli/output.h"

#include <libsmartcols.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "google/protobuf/util/json_util.h"

namespace weft::cli {
namespace {

struct Unref {
  void operator()(libscols_table* table) const { scols_unref_table(table); }
  void operator()(char* text) const { std::free(text); }  // NOLINT: allocated by libsmartcols
};

const char* ColorName(Color color) {
  switch (color) {
    case Color::kGood:
      return "green";
    case Color::kBad:
      return "red";
    case Color::kDoubt:
      return "yellow";
    default:
      return nullptr;
  }
}

bool IsSet(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

bool WantsColor(bool no_color) {
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || absl::string_view(term) == "dumb";
  return !no_color && !dumb && !IsSet("NO_COLOR") && !IsSet("WEFT_NO_COLOR");
}

bool Shown(const Column& column, const OutputOptions& options) {
  return !column.wide || options.format == Format::kWide;
}

void Must(bool done) {
  if (!done) throw std::bad_alloc();  // libsmartcols fails only for want of memory
}

void AddColumns(const std::vector<Column>& columns, const OutputOptions& options, libscols_table* table) {
  for (const Column& column : columns) {
    if (!Shown(column, options)) continue;
    const int flags = (column.right ? SCOLS_FL_RIGHT : 0) | (column.may_cut ? SCOLS_FL_TRUNC : 0);
    Must(scols_table_new_column(table, column.name.c_str(), 0, flags) != nullptr);
  }
}

void AddLine(const std::vector<Column>& columns, const std::vector<Cell>& cells, const OutputOptions& options,
             libscols_table* table) {
  libscols_line* line = scols_table_new_line(table, nullptr);
  Must(line != nullptr);
  size_t at = 0;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (!Shown(columns[i], options)) continue;
    Must(scols_line_set_data(line, at, cells[i].text.c_str()) == 0);
    const char* color = options.color ? ColorName(cells[i].color) : nullptr;
    if (color != nullptr) Must(scols_cell_set_color(scols_line_get_cell(line, at), color) == 0);
    ++at;
  }
}

}  // namespace

OutputOptions StandardOutput(Format format, bool no_color) {
  OutputOptions options;
  options.format = format;
  options.terminal = isatty(STDOUT_FILENO) == 1;
  options.color = options.terminal && WantsColor(no_color);
  winsize size{};
  const bool known = options.terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  if (known) options.width = size.ws_col;
  return options;
}

void Table::AddRow(std::vector<Cell> cells) {
  cells.resize(columns_.size(), Cell(""));
  for (Cell& cell : cells) cell.text = cell.text.empty() ? "-" : ToValidUtf8(cell.text);
  rows_.push_back(std::move(cells));
}

std::string Table::Render(const OutputOptions& options) const {
  return options.terminal ? RenderAligned(options) : RenderTabs(options);
}

std::string Table::RenderAligned(const OutputOptions& options) const {
  std::unique_ptr<libscols_table, Unref> table(scols_new_table());
  Must(table != nullptr);
  scols_table_enable_colors(table.get(), options.color ? 1 : 0);
  scols_table_set_termforce(table.get(), SCOLS_TERMFORCE_ALWAYS);
  scols_table_set_termwidth(table.get(), options.width);
  scols_table_set_column_separator(table.get(), "  ");
  AddColumns(columns_, options, table.get());
  // libsmartcols escapes what is not printable itself; texts escaped before would come out escaped twice.
  for (const auto& row : rows_) AddLine(columns_, row, options, table.get());
  char* text = nullptr;
  Must(scols_print_table_to_string(table.get(), &text) == 0);
  const std::unique_ptr<char, Unref> owned(text);
  std::string out = text == nullptr ? "" : text;
  if (!absl::EndsWith(out, "\n")) out.push_back('\n');
  return out;
}

std::string Table::RenderTabs(const OutputOptions& options) const {
  std::string out;
  const auto add_line = [&](const auto& text_of) {
    std::vector<std::string> texts;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (Shown(columns_[i], options)) texts.push_back(text_of(i));
    }
    absl::StrAppend(&out, absl::StrJoin(texts, "\t"), "\n");
  };
  add_line([&](size_t i) { return columns_[i].name; });
  for (const auto& row : rows_) add_line([&](size_t i) { return EscapeControl(row[i].text); });
  return out;
}

void Card::Add(std::string name, std::string value) {
  if (!value.empty()) lines_.emplace_back(std::move(name), EscapeControl(ToValidUtf8(value)));
}

std::string Card::Render(const OutputOptions& options) const {
  size_t width = 0;
  for (const auto& [name, value] : lines_) width = std::max(width, name.size());
  std::string out;
  for (const auto& [name, value] : lines_) {
    const std::string gap = options.terminal ? std::string(width - name.size() + 2, ' ') : "\t";
    absl::StrAppend(&out, name, gap, value, "\n");
  }
  return out;
}

absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (status.ok()) return json;
  return absl::InternalError(absl::StrCat("cannot write the answer as JSON: ", status.ToString()));
}

google::protobuf::Struct JsonObject(const std::map<std::string, std::string>& texts) {
  google::protobuf::Struct object;
  for (const auto& [key, text] : texts) (*object.mutable_fields())[key].set_string_value(ToValidUtf8(text));
  return object;
}

std::string ShortName(absl::string_view name, absl::string_view prefix) {
  if (!absl::StartsWith(name, prefix) || absl::EndsWith(name, "_UNSPECIFIED")) return "UNKNOWN";
  return std::string(name.substr(prefix.size()));
}

}  // namespace weft::cli
