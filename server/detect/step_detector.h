// Notices when one series of measurements steps to another level and stays there, sample by sample.
//
// A cheap screen follows a robust level and scale and runs a sum of deviations each way; what it lets through
// is weighed against the series' last 160 samples (server/detect/step_evidence.h) and becomes an event when
// StepConfidence says so. The level is then the new one: one step, one event, down and up alike. Survives
// autocorrelation, daily patterns, heavy tails, dips, two operating modes, rounding, gaps and constants.
//
// The detector holds settings only and may be shared by threads; the state of a series is a plain value of
// 256 bytes that belongs to one thread at a time. The same values give the same events, also when the state
// was encoded and decoded in between. Values may be scaled by any factor: only ratios count.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/detect/sample_window.h"
#include "server/detect/step_confidence.h"
#include "server/detect/step_evidence.h"

namespace weft {

// Which way is worse.
enum class Better : uint8_t { kHigher, kLower };

struct StepOptions {
  StepProfile profile = StepProfile::kBalanced;
  Better better = Better::kHigher;  // kLower for latencies
};

struct StepEvent {
  enum class Direction : uint8_t { kWorse, kBetter };
  Direction direction = Direction::kWorse;
  // The first sample on the new level is this many samples back; 0 would be the newest. Missing ones do not
  // count.
  int samples_ago = 0;
  // Levels in the unit of the values. What fell below 1/26 of its level is given as 1/26.
  double level_before = 0;
  double level_after = 0;
  // Ends what an earlier step to the worse began: at most 40% of that step remains.
  bool recovers = false;
  double confidence = 0;  // 0 to 1
};

struct StepState {
  static constexpr uint8_t kVersion = 1;
  uint8_t version = kVersion;
  uint8_t suspicion = 0;  // samples for which the screen has been suspicious, at most 255
  uint8_t pause = 0;      // samples for which a closer look is not worth it
  uint8_t has_level = 0;
  float reference = 0;  // what a log of 0 stands for, in the unit of the values; 0: nothing came yet
  // Logs, turned so that lower is worse.
  float level = 0, scale = 0;
  float lag_covariance = 0, lag_variance = 1;  // of residuals in scales
  float sum_low = 0, sum_high = 0;
  float best_level = 0;      // best that lasted
  float previous_level = 0;  // before the newest step to the worse
  SampleWindow window;
};
static_assert(sizeof(StepState) <= 256);

class StepDetector {
 public:
  explicit StepDetector(StepOptions options);

  // Takes the next value. One that is not a finite number is a missing sample and changes nothing; one below
  // 0 as well, and 0 where lower is better. 0 where higher is better is as bad as can be.
  std::optional<StepEvent> Observe(StepState& state, double value) const;

  // What Observe would judge, without judging it: takes the value and returns the evidence for a step when
  // the screen asks for a closer look. For fitting StepConfidence.
  struct Look {
    StepEvidence evidence;
    StepEvent::Direction direction = StepEvent::Direction::kWorse;
  };
  std::optional<Look> TakeAndLook(StepState& state, double value) const;

  // The level now, the best that lasted, and the one before the newest step to the worse, in the unit of the
  // values; 0 while there is none.
  double Level(const StepState& state) const;
  double BestLevel(const StepState& state) const;
  double PreviousLevel(const StepState& state) const;

 private:
  double ValueOf(const StepState& state, float log) const;
  bool IsMissing(const StepState& state, double value) const;
  bool Screen(StepState& state, double value) const;
  std::optional<Look> LookCloser(const StepState& state) const;
  StepEvent Accept(StepState& state, const Look& look, double confidence) const;

  StepOptions options_;
  float sign_;  // of a log, so that lower is worse
};

// Little-endian bytes of a state.
std::string EncodeStepState(const StepState& state);
// kDataLoss when the bytes are not a state of this version or cannot have been one.
absl::StatusOr<StepState> DecodeStepState(absl::string_view bytes);

}  // namespace weft
