// What a finding is about, in words. Any thread.
#pragma once

#include <string>

#include "weft/v1/finding.pb.h"

namespace weft {

// "gpu017", "gpu017 mlx5_0", "gpu017 - gpu018", "leaf-07", "fleet": by hostname, by id where that is unknown.
std::string SubjectOf(const v1::Finding& finding);
// The summary with its subject in front, for whoever reads nothing else: "gpu017: bandwidth fell to …".
std::string SummaryWithSubject(const v1::Finding& finding);

}  // namespace weft
