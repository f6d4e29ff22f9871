// What kind of trouble a stretch of one series shows, in hindsight: for charts, reports and the wording of
// findings. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "server/detect/step_detector.h"

namespace weft {

enum class EventClass : uint8_t { kNone, kStep, kIncident, kFlapping, kDrift, kTransient, kFleet };

// A short lower-case name, as in tables and JSON.
const char* NameOf(EventClass kind);

// An event with its place in a series.
struct PlacedStep {
  size_t at = 0;     // index of the value at which it was noticed
  size_t onset = 0;  // index of the first value on the new level
  StepEvent event;
};

// All steps of a whole series, oldest first. Values that are not finite are missing.
std::vector<PlacedStep> FindSteps(const StepDetector& detector, const std::vector<double>& values);

// The class of a series whose common mode, if there is one, was taken out. Higher is better. `steps` are its
// own.
//   step       lower since, and not back            incident   lower for a while, then recovered
//   flapping   up and down again and again          drift      ever lower, without a step
//   transient  short deep dips only                 none       nothing of these
EventClass ClassOf(const std::vector<double>& values, const std::vector<PlacedStep>& steps);

// The cohort's middle at each index, each series relative to its own level, so that 1 is as usual. All series
// have the same length. Missing (NaN) where nothing was reported.
std::vector<double> CommonMode(const std::vector<std::vector<double>>& cohort);

// Classes of a whole cohort, the common mode taken out when at least 8 series report. A series whose own
// remaining step is small beside the fleet's belongs to the fleet's event.
std::vector<EventClass> ClassesOf(const StepDetector& detector,
                                  const std::vector<std::vector<double>>& cohort);

}  // namespace weft
