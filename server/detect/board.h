// Everything known of one probe and channel (one NIC, or the node where it has only one): the series of its
// nodes, their cohorts, and pairs that were slow for no other reason.
//
// The model: a pair reaches min(capacity of both ends); a node's capacity is its own good history, or the
// middle of its cohort where it has none or its own is far below that. A node is blamed when its newest runs
// are all bad, with at least two partners that are not suspects themselves; runs with a suspect or blamed
// partner only count when they show no more than that partner's fault. What stays slow with both ends clean
// is the pair. When most of a cohort goes bad at once it is the fleet, not its nodes.
//
// All decisions follow from the plan times of runs, never from the order in which their results came.
// Used by one thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/detect/options.h"
#include "server/detect/series.h"

namespace weft {

// What one end reports of one run of a pair.
struct RunReport {
  std::string run_id;
  std::string node;
  std::string partner;
  std::string cohort;
  std::string stack;  // empty: the run says nothing of it
  absl::Time time;    // plan time
  SideReport side;
  bool in_maintenance = false;
};

enum class Verdict {
  kUnknown,    // says nothing of the node
  kGood,       // at or above the recovered ratio; or it worked
  kMiddle,     // neither good nor slow
  kBad,        // slow; or it failed
  kExplained,  // bad or middling because of the partner
};

struct Judgement {
  Verdict verdict = Verdict::kUnknown;
  double observed = 0;  // bytes per second
  double expected = 0;  // bytes per second; 0 if unknown
  double ratio() const { return expected > 0 ? observed / expected : 0; }
};

using PairKey = std::pair<std::string, std::string>;  // sorted node ids

// Slow runs of a pair that neither end explains.
struct PairMemory {
  struct SlowRun {
    absl::Time time;
    std::string run_id;
    double observed = 0;
    double expected = 0;
  };
  std::vector<SlowRun> slow;  // newest first, bounded, never empty
  bool open = false;          // believed to be the path between them
  uint8_t good_runs = 0;      // newer than the newest slow one
};

// The middle of a cohort's nodes of one stack.
struct CohortLevel {
  double level = 0;    // bytes per second; 0: not known
  double spread = 0;   // median absolute deviation
  uint64_t nodes = 0;  // of that stack
};

struct Cohort {
  struct FleetBelief {
    bool open = false;
    absl::Time since = absl::InfinitePast();
    double ratio = 1;  // of the middle node
  };
  // Members by their newest runs; follows from their series.
  struct Tally {
    size_t two_bad = 0;
    size_t streak_bad = 0;
    size_t streak_good = 0;
  };
  std::set<std::string> members;
  std::map<std::string, CohortLevel> levels;  // by stack
  uint64_t reports_since_refresh = 0;
  std::array<FleetBelief, kAspects> fleet;
  std::array<Tally, kAspects> tally;
};

// Keys whose memory changed since they were last taken.
struct BoardChanges {
  std::set<std::string> nodes;
  std::set<std::string> cohorts;
  std::set<PairKey> pairs;
};

class Board {
 public:
  explicit Board(const DetectorOptions& options) : options_(options) {}

  void Observe(const RunReport& report);

  // How a sample of the node looks now. `fleet` false: as if the fleet had not shifted.
  Judgement Judge(Aspect aspect, const Series& series, const Sample& sample, bool fleet = true) const;
  // Bytes per second that the node should reach alone; 0 if unknown.
  double Expected(const Series& series) const;

  const std::unordered_map<std::string, Series>& series() const { return series_; }
  const std::map<std::string, Cohort>& cohorts() const { return cohorts_; }
  const std::map<PairKey, PairMemory>& pairs() const { return pairs_; }
  // Nodes with an open belief.
  const std::set<std::string>& open_nodes(Aspect aspect) const { return open_[Index(aspect)]; }
  // The pair's slow runs are neither confirmed nor followed by enough good ones of both ends.
  bool IsTransient(const PairKey& pair, const PairMemory& memory) const;

  BoardChanges TakeChanges() { return std::exchange(changes_, {}); }

  // Memory as blobs; empty if there is none. Restore all of them, then call FinishRestore once.
  std::string EncodeNode(const std::string& node) const;
  std::string EncodeCohort(const std::string& cohort) const;
  std::string EncodePair(const PairKey& pair) const;
  bool RestoreNode(const std::string& node, BlobReader& reader);
  bool RestoreCohort(const std::string& cohort, BlobReader& reader);
  bool RestorePair(const PairKey& pair, BlobReader& reader);
  void FinishRestore();

 private:
  static constexpr size_t Index(Aspect aspect) { return static_cast<size_t>(aspect); }

  // A run of bad samples up to the newest, split by whether the partner is a suspect itself.
  struct Streak {
    struct Item {
      absl::Time time;
      std::string partner;
      double ratio = 0;
    };
    std::vector<Item> own;                                 // newest first
    std::vector<Item> shared;                              // newest first
    size_t Partners() const;                               // of own
    std::vector<double> NewestRatios(size_t count) const;  // of own
  };

  Series& SeriesOf(const std::string& node, const std::string& cohort);
  const Series* FindSeries(const std::string& node) const;
  bool BelongsToAnOldStack(const RunReport& report) const;
  void FollowStack(Series& series, const RunReport& report);
  void FollowCohort(const std::string& node, Series& series, const RunReport& report);
  bool Record(const RunReport& report);
  void Learn(const std::string& node, const std::string& run_id);
  void Train(Series& series, const Sample& sample);
  void AdoptBaseline(Series& series);
  std::vector<double> Candidates(const Series& series) const;
  bool IsFarBelowCohort(const Series& series, double level) const;
  const CohortLevel* LevelOfCohort(const Series& series) const;
  void RefreshCohort(const std::string& name, Cohort& cohort);

  Judgement JudgeSpeed(const Series& series, const Sample& sample, bool fleet) const;
  Judgement JudgeFailure(const Sample& sample) const;

  void EvaluateFrom(const std::string& node, const std::string& partner);
  // True when a belief of the node changed.
  bool Evaluate(Aspect aspect, const std::string& node);
  void MarkExplained(Aspect aspect, const std::string& node, Series& series);
  void CountRuns(Aspect aspect, const std::string& node, Series& series);
  void AddToTally(Aspect aspect, const Series& series, bool add);
  Streak NewestStreak(Aspect aspect, const std::string& node, const Series& series) const;
  bool IsSuspect(Aspect aspect, const std::string& node, const std::string& apart_from,
                 absl::Time since) const;
  bool IsEnough(const Streak& streak) const;
  bool IsEnoughAlone(const Streak& streak) const;
  bool IsEnoughWithShared(const Streak& streak) const;
  bool LooksLikeTheFleet(Aspect aspect, const Series& series) const;
  void Open(Aspect aspect, const std::string& node, Series& series, const Streak& streak);
  void UpdateRatio(Aspect aspect, Series& series);
  void EvaluateFleet(Aspect aspect, const std::string& name);
  double MiddleRatio(const Cohort& cohort) const;

  void EvaluatePair(const RunReport& report);
  void AddSlowRun(const PairKey& key, const Sample& sample, const Judgement& judgement);
  void MakeRoomForPair();
  void AddGoodRun(const PairKey& key, absl::Time time);
  bool IsFineWithOthers(const std::string& node, const std::string& partner, absl::Time since) const;
  void ErasePair(const PairKey& key);
  void ErasePairsOf(const std::string& node);

  const DetectorOptions options_;
  std::unordered_map<std::string, Series> series_;  // by node id
  std::map<std::string, Cohort> cohorts_;
  std::map<PairKey, PairMemory> pairs_;
  std::array<std::set<std::string>, kAspects> open_;
  BoardChanges changes_;
};

}  // namespace weft
