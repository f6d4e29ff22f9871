#include "fleet/finding.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace weft {

std::string Finding::Key() const {
  return absl::StrCat(static_cast<int>(kind), "|", static_cast<int>(scope), "|", absl::StrJoin(node_ids, ","),
                      "|", part, "|", probe);
}

}  // namespace weft
