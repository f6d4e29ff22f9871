// What the detector remembers of one node in one probe and channel: its latest runs, its baseline, and what
// is believed of it. Plain values and their encoding; used by one thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "fleet/probe.h"
#include "server/detect/codec.h"

namespace weft {

// What is judged of a node: how fast its runs are, and whether they work at all.
enum class Aspect : uint8_t { kSpeed = 0, kFailure = 1 };
inline constexpr size_t kAspects = 2;
inline constexpr std::array<Aspect, kAspects> kAllAspects = {Aspect::kSpeed, Aspect::kFailure};

// What one end reported of a run.
struct SideReport {
  enum class State : uint8_t { kNone = 0, kOk = 1, kFailed = 2, kSkipped = 3 };
  State state = State::kNone;
  bool accuses_peer = false;  // says that the other end never came
  double value = -1;          // bandwidth in bytes per second; negative: not measured
  bool operator==(const SideReport&) const = default;
};

// One run of a pair as one of its ends sees it.
struct Sample {
  absl::Time time = absl::InfinitePast();  // plan time
  std::string run_id;
  std::string partner;
  SideReport mine;
  SideReport theirs;
  bool in_maintenance = false;
  std::array<bool, kAspects> explained = {};  // the partner was to blame for what it shows

  bool both_ok() const {
    return mine.state == SideReport::State::kOk && theirs.state == SideReport::State::kOk;
  }
  bool complete() const { return both_ok() && mine.value >= 0 && theirs.value >= 0; }
  // The slower of the directions that are known; negative if none is.
  double bandwidth() const;
};

// What is believed of a node in one aspect.
struct Belief {
  bool open = false;
  bool against_cohort = false;              // it never had a baseline of its own
  absl::Time since = absl::InfinitePast();  // first bad run
  double expected = 0;                      // bytes per second, as when it was opened
  double ratio = 0;                         // observed / expected
  uint8_t bad_runs = 0;                     // newest runs in a row that are bad, at most 255
  uint8_t good_runs = 0;                    // the same that are good, counted up to recovered_runs
};

struct Series {
  std::string cohort;
  std::string stack;                              // all that changes what its numbers mean
  absl::Time stack_since = absl::InfinitePast();  // plan time of its first run
  std::vector<Sample> samples;                    // newest first, bounded
  std::vector<double> training;                   // good values, oldest first, bounded
  double baseline = 0;                            // bytes per second; 0: not known yet
  std::array<Belief, kAspects> beliefs;

  Belief& belief(Aspect aspect) { return beliefs[static_cast<size_t>(aspect)]; }
  const Belief& belief(Aspect aspect) const { return beliefs[static_cast<size_t>(aspect)]; }
};

// The sample of a run in its place by time; null if it is older than all of a full window.
Sample* FindOrInsertSample(Series& series, absl::Time time, absl::string_view run_id,
                           absl::string_view partner, size_t capacity);

// Forgets the baseline and the runs behind it, for a node whose stack changed.
void ForgetLevel(Series& series);

// The `quantile` (0 to 1) of `values`, by nearest rank below; 0 for none.
double Quantile(std::vector<double> values, double quantile);
// The middle value, or the mean of the two in the middle.
double Median(std::vector<double> values);

void EncodeSeries(const Series& series, BlobWriter& writer);
Series DecodeSeries(BlobReader& reader);

}  // namespace weft
