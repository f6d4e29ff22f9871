// Reads what weft-replay replays. Errors: kNotFound for a file that cannot be opened, kInvalidArgument for
// what is not as described; both name the file and what to do. Used by one thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/detect/blame.h"

namespace weft {

using Matrix = std::vector<std::vector<double>>;  // one series or node a row; NaN is missing

// Little-endian float32, row after row, exactly rows × cols of them.
absl::StatusOr<Matrix> ReadFloats(const std::string& path, size_t rows, size_t cols);

// Cohort of each row, -1 for none. A heading `row,cohort`, then one line for each row, in any order, each
// once.
absl::StatusOr<std::vector<int>> ReadCohortOfRows(const std::string& path, size_t rows);

// [{"x": [[samples of a node], ...]}, ...]; null is a missing sample.
absl::StatusOr<std::vector<Matrix>> ReadCohorts(const std::string& path);

struct Fabric {
  size_t nodes = 0;
  std::vector<PairRun> runs;  // of the first rounds only
};

// [{"n": nodes, "rounds": [[[a, b, value], ...], ...]}, ...]; rounds after the first `rounds` are not read.
absl::StatusOr<std::vector<Fabric>> ReadFabrics(const std::string& path, size_t rounds);

}  // namespace weft
