// Which node or link makes runs between pairs slow. Pure; any thread.
//
// The model: a run reaches reference × the least capacity of the parts it used, with noise, and now and then
// a dip of any depth. Parts are blamed one by one, the one that explains most first, while the explanation is
// worth more than the assumption costs; what a blamed part already explains counts no longer against others.
// A part that turned out to be superfluous is let go. Today's parts are the two nodes and the link between
// them; NICs and leaves are further entries in a run's list of parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

struct PairRun {
  size_t a = 0, b = 0;  // nodes, different
  double value = 0;     // bandwidth in any unit, the same for all runs
};

enum class PartKind : uint8_t { kNode = 0, kLink = 1 };

struct Suspect {
  PartKind kind = PartKind::kNode;
  size_t node = 0;
  size_t peer = 0;        // kLink: the other end, above `node`; else equal to `node`
  double capacity = 1;    // share of the reference it seems to reach
  double confidence = 0;  // 0 to 1, that it is to blame
  bool is_blamed = false;
  // Evidence.
  int runs = 0;       // that used it and that nothing else explains
  int slow_runs = 0;  // of these, those that fit its capacity or less
  int partners = 0;   // different other ends of the slow runs
};

struct Blame {
  double reference = 0;  // what a run reaches when nothing is wrong, in the unit of the values
  double noise = 0;      // relative, of one run
  // Blamed parts in the order of blame, then others worth another run, the likeliest first.
  std::vector<Suspect> suspects;
};

// Runs whose value is not a finite number of 0 or more, whose nodes are the same or not below `nodes`, are
// left out. With fewer than 4 runs nobody is blamed.
Blame FindBlame(size_t nodes, const std::vector<PairRun>& runs);

}  // namespace weft
