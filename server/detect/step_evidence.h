// How strongly a window of samples speaks for one lasting drop that began inside it. Pure, bounded work: a
// few passes over the window. Any thread.
//
// The model is level + slope + step with first-order autocorrelated, heavy-tailed noise. The step is
// weighed by a generalised least squares t (Huber's estimate on whitened residuals), alone and beside a
// slope, which takes what a drift or a daily pattern explains. No p-value is read off a maximised split:
// StepConfidence turns these numbers into a probability.
#pragma once

#include <optional>

#include "server/detect/sample_window.h"

namespace weft {

struct StepEvidence {
  int before = 0;                           // samples before the onset
  int after = 0;                            // samples since, the first dropped one included
  float level_before = 0, level_after = 0;  // logs, turned so that a drop is negative
  float shift = 0;                          // level_before - level_after, above 0
  float scale = 0;                          // of the noise around both levels, logs
  float correlation = 0;                    // lag one, 0 to 0.85
  float contrast = 0;                       // t of the step
  float contrast_beside_slope = 0;
  float share_low = 0;      // of the samples since, those past the midpoint of both levels
  float share_settled = 0;  // of them, those within 6 scales of level_after: dips settle on no level
  int still_high = 0;       // of the samples since, how many at their beginning are not past the midpoint
  int newest_low = 0;       // of the newest three samples, those past the midpoint
  float onset_mass = 0;     // of the onset's likelihood, what lies within 5 samples of the one given
};

struct StepQuestion {
  const SampleWindow* window = nullptr;
  bool is_up = false;     // ask for a rise: everything below is then turned upside down
  float level = 0;        // running level, logs
  float scale = 0;        // running scale of the noise, above 0
  float correlation = 0;  // running lag-one correlation
  int least_after = 5;    // a step younger than this is not weighed; at most SampleWindow::kRecent
};

// Nothing when a first, cheap look already says that no step stands out.
std::optional<StepEvidence> WeighStep(const StepQuestion& question);

}  // namespace weft
