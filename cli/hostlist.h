// Slurm hostlists: "gpu[001-004,7],login1" names gpu001, gpu002, gpu003, gpu004, gpu7 and login1. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft::cli {

// Most names that one hostlist may stand for.
inline constexpr size_t kMaxHosts = 1000;

// The names in order, duplicates removed. Numbers keep the width of the range's first number; several
// brackets in one name multiply. Entries may hold the globs * and ?, which are kept as they are.
// kInvalidArgument: empty entries, unbalanced or nested brackets, a range that is not a number or runs
// backwards, or more than `max_hosts` names.
absl::StatusOr<std::vector<std::string>> ExpandHostlist(absl::string_view text, size_t max_hosts = kMaxHosts);

// Whether `name` holds a glob (* or ?).
bool IsGlob(absl::string_view name);

}  // namespace weft::cli
