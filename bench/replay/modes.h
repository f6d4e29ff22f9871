// What weft-replay does with its inputs: feeds them to the classes of server/detect. One function a
// mode; each writes JSON lines to `out`. Used by one thread.
#pragma once

#include <ostream>
#include <vector>

#include "bench/replay/inputs.h"
#include "server/detect/step_confidence.h"

namespace weft {

// A line per alarm: {"row", "at", "onset", "direction"}.
void ReplaySeries(const Matrix& rows, StepProfile profile, std::ostream& out);
// A line per closer look at a possible step to the worse, none of them acted on, for fit_confidence.py.
void ReplayEvidence(const Matrix& rows, std::ostream& out);
// A line per row, in the order of rows: {"row", "class"}.
void ReplayClasses(const Matrix& rows, const std::vector<int>& cohort_of_rows, std::ostream& out);
// A line per cohort: {"slow": [node, ...]}.
void ReplayCohorts(const std::vector<Matrix>& cohorts, std::ostream& out);
// A line per fabric: {"nodes": [...], "links": [[a, b], ...]}.
void ReplayPairs(const std::vector<Fabric>& fabrics, std::ostream& out);

}  // namespace weft
