// Compares what was believed and told with what was wrong. docs/SIMULATION.md defines every number. Used by
// one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "bench/sim/explain.h"
#include "bench/sim/scenario.h"
#include "fleet/finding.h"

namespace weft::sim {

struct FaultScore {
  bool exposed = false;  // a run crossed it while it was there
  bool found = false;
  absl::Duration found_after;
  uint64_t runs_until_found = 0;  // that crossed it
  Name named;                     // what it was called for longest
  bool right = false;
  bool was_named_right = false;
  absl::Duration right_after;
  uint64_t rounds_until_right = 0;  // in which its nodes could be probed
  uint64_t symptoms = 0;            // findings that it explains and that have another name
};

// A finding that nothing explains.
struct FalseFinding {
  Name name;
  std::string kind;
  absl::Duration at;
  bool told = false;
  std::string summary;
};

struct Score {
  std::vector<FaultScore> faults;  // as in the scenario
  std::vector<FalseFinding> false_findings;
  uint64_t pages = 0;
  uint64_t pages_false = 0;

  // Of the faults that are to be paged.
  size_t FaultsToFind(const Scenario& scenario) const;
  size_t Found(const Scenario& scenario) const;
  size_t Right(const Scenario& scenario) const;
};

class Scorer {
 public:
  // `scenario` must outlive it.
  explicit Scorer(const Scenario& scenario);

  // A round begins; `is_busy` by node.
  void BeginRound(absl::Duration now, const std::vector<bool>& is_busy);
  // A run of these nodes takes place.
  void CountRun(absl::Duration now, const std::vector<size_t>& nodes);
  // The open episodes at the end of a round, by Finding::Key().
  void Judge(absl::Duration now, const std::map<std::string, Episode>& open);
  Score Finish();

 private:
  struct Following {
    std::map<Name, uint64_t> rounds_by_name;
    uint64_t rounds = 0;  // since the onset
    uint64_t runs = 0;
  };
  struct Known {
    size_t fault = kAll;  // that explains it
    bool is_explained = false;
    bool was_told = false;
    size_t false_finding = kAll;
  };

  bool Explains(const Fault& fault, absl::Duration now) const;
  bool IsWorkedOn(const Finding& finding, absl::Duration now) const;
  size_t FaultOf(const Finding& finding, absl::Duration now) const;
  Known& Open(const Episode& episode, absl::Duration now);
  void Credit(size_t fault, const Finding& finding, absl::Duration now);
  void CountPage(const Episode& episode, Known& known, absl::Duration now);
  bool CanBeProbed(const Fault& fault, const std::vector<bool>& is_busy) const;

  const Scenario& scenario_;
  Score score_;
  std::vector<Following> following_;
  std::map<std::string, Known> known_;  // open episodes that count, by id
};

}  // namespace weft::sim
