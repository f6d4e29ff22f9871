// Turns evidence for a step into the odds that a lasting step is really there. Pure; any thread.
#pragma once

#include <cstdint>

#include "server/detect/step_evidence.h"

namespace weft {

enum class StepProfile : uint8_t {
  kBalanced,  // for findings
  kFast,      // about a sample earlier, half as many false ones again
};

// Whether the evidence passes the rules that hold whatever the odds: a step of at least 2.4%, on whose level
// most samples since have settled, and that has not ended.
bool MayBeStep(const StepEvidence& evidence);

// Natural logarithm of the odds. A logistic model fitted to generated series by
// bench/replay/fit_confidence.py; docs/DETECTION.md tells from which.
double StepLogOdds(const StepEvidence& evidence);

// What the log odds must reach. A young step must be surer: waiting a little costs least when it helps most.
double RequiredLogOdds(StepProfile profile, int samples_after);

}  // namespace weft
