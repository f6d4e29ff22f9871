#include "bench/replay/inputs.h"

#include <algorithm>
#include <bit>
#include <boost/json/src.hpp>  // the library itself: no package of it need be linked
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace weft {
namespace {

namespace json = boost::json;
static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr size_t kMostNodes = 1'000'000;

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(absl::StrCat(path, ": cannot be opened for reading"));
  std::ostringstream text;
  text << in.rdbuf();
  if (in.bad()) return absl::DataLossError(absl::StrCat(path, ": reading failed"));
  return std::move(text).str();
}

absl::Status Bad(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

absl::StatusOr<json::array> ReadArray(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  boost::system::error_code error;
  json::value value = json::parse(*text, error);
  if (error) return Bad(path, absl::StrCat("is not JSON: ", error.message()));
  if (!value.is_array()) return Bad(path, "must hold a JSON array");
  return std::move(value.as_array());
}

const json::array* ArrayOf(const json::value& value, const char* key) {
  const json::object* object = value.if_object();
  const json::value* found = object == nullptr ? nullptr : object->if_contains(key);
  return found == nullptr ? nullptr : found->if_array();
}

bool ToNumber(const json::value& value, double* number) {
  boost::system::error_code error;
  *number = value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.to_number<double>(error);
  return !error;
}

bool ToIndex(const json::value& value, size_t below, size_t* index) {
  double number = 0;
  if (!ToNumber(value, &number) || !(number >= 0) || number >= static_cast<double>(below)) return false;
  *index = static_cast<size_t>(number);
  return static_cast<double>(*index) == number;
}

bool ToMatrix(const json::array& rows, Matrix* matrix) {
  for (const json::value& row : rows) {
    const json::array* samples = row.if_array();
    if (samples == nullptr) return false;
    std::vector<double>& numbers = matrix->emplace_back(samples->size());
    for (size_t i = 0; i < samples->size(); ++i) {
      if (!ToNumber((*samples)[i], &numbers[i])) return false;
    }
  }
  return true;
}

bool ToRun(const json::value& value, size_t nodes, PairRun* run) {
  const json::array* three = value.if_array();
  return three != nullptr && three->size() == 3 && ToIndex((*three)[0], nodes, &run->a) &&
         ToIndex((*three)[1], nodes, &run->b) && run->a != run->b && ToNumber((*three)[2], &run->value);
}

bool ToFabric(const json::value& value, size_t most_rounds, Fabric* fabric) {
  const json::object* object = value.if_object();
  const json::value* nodes = object == nullptr ? nullptr : object->if_contains("n");
  const json::array* rounds = ArrayOf(value, "rounds");
  if (nodes == nullptr || rounds == nullptr || !ToIndex(*nodes, kMostNodes, &fabric->nodes)) return false;
  for (size_t r = 0; r < std::min(most_rounds, rounds->size()); ++r) {
    const json::array* round = (*rounds)[r].if_array();
    if (round == nullptr) return false;
    for (const json::value& one : *round) {
      if (!ToRun(one, fabric->nodes, &fabric->runs.emplace_back())) return false;
    }
  }
  return true;
}

}  // namespace

absl::StatusOr<Matrix> ReadFloats(const std::string& path, size_t rows, size_t cols) {
  absl::StatusOr<std::string> bytes = ReadFile(path);
  if (!bytes.ok()) return bytes.status();
  if (bytes->size() % sizeof(float) != 0 || cols == 0 || bytes->size() / sizeof(float) / cols != rows ||
      bytes->size() / sizeof(float) % cols != 0) {
    return Bad(path, absl::StrCat("has ", bytes->size(), " bytes, but ", rows, " rows of ", cols,
                                  " float32 take 4 bytes each: check --rows and --cols"));
  }
  Matrix matrix(rows, std::vector<double>(cols));
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < cols; ++c) {
      float value = 0;
      std::memcpy(&value, bytes->data() + (r * cols + c) * sizeof(float), sizeof(float));
      matrix[r][c] = value;
    }
  }
  return matrix;
}

absl::StatusOr<std::vector<int>> ReadCohortOfRows(const std::string& path, size_t rows) {
  absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  std::vector<int> cohorts(rows, -2);
  size_t line_number = 0, given = 0;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    ++line_number;
    line = absl::StripAsciiWhitespace(line);
    if (line_number == 1 && line != "row,cohort") return Bad(path, "line 1 must be `row,cohort`");
    if (line_number == 1 || line.empty()) continue;
    const std::vector<absl::string_view> cells = absl::StrSplit(line, ',');
    size_t row = 0;
    int cohort = 0;
    if (cells.size() != 2 || !absl::SimpleAtoi(cells[0], &row) || !absl::SimpleAtoi(cells[1], &cohort) ||
        row >= rows || cohort < -1 || cohorts[row] != -2) {
      return Bad(path, absl::StrCat("line ", line_number, ": `", line, "` is not a row below ", rows,
                                    " that comes once and a cohort of -1 or more"));
    }
    cohorts[row] = cohort;
    ++given;
  }
  if (given != rows) return Bad(path, absl::StrCat("gives a cohort for ", given, " of ", rows, " rows"));
  return cohorts;
}

absl::StatusOr<std::vector<Matrix>> ReadCohorts(const std::string& path) {
  absl::StatusOr<json::array> array = ReadArray(path);
  if (!array.ok()) return array.status();
  std::vector<Matrix> cohorts;
  for (const json::value& one : *array) {
    const json::array* rows = ArrayOf(one, "x");
    if (rows == nullptr || !ToMatrix(*rows, &cohorts.emplace_back())) {
      return Bad(path,
                 absl::StrCat("cohort ", cohorts.size(), " is not {\"x\": [[number or null, ...], ...]}"));
    }
  }
  return cohorts;
}

absl::StatusOr<std::vector<Fabric>> ReadFabrics(const std::string& path, size_t rounds) {
  absl::StatusOr<json::array> array = ReadArray(path);
  if (!array.ok()) return array.status();
  std::vector<Fabric> fabrics;
  for (const json::value& one : *array) {
    if (!ToFabric(one, rounds, &fabrics.emplace_back())) {
      return Bad(path,
                 absl::StrCat("fabric ", fabrics.size(),
                              " is not {\"n\": nodes, \"rounds\": [[[node, other node, value], ...], ...]}"));
    }
  }
  return fabrics;
}

}  // namespace weft
