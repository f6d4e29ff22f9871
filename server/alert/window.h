// Maintenance windows: when they are open and whom they cover. Pure: `now` is a parameter, and the process's
// own time zone plays no part. Any thread.
//
// A window mutes notifications, nothing else. Overlapping windows and overlapping occurrences of one window
// are a union. Kinds of schedule beyond one-off and weekly get a further alternative in
// MaintenanceWindow::schedule and a further case in OccurrenceAt and NextOccurrence; nobody else looks
// inside.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "fleet/finding.h"
#include "fleet/maintenance.h"
#include "fleet/node.h"

namespace weft {

inline constexpr absl::Duration kMaxOneOff = absl::Hours(24 * 30);
inline constexpr absl::Duration kMinOccurrence = absl::Minutes(1);
inline constexpr absl::Duration kMaxOccurrence = absl::Hours(24 * 7);
inline constexpr absl::Duration kMaxWindowHorizon = absl::Hours(24 * 366);

// Whether a window may be created at `now`. kInvalidArgument lists every problem, not only the first: bounds
// of proto/weft/v1/maintenance.proto, a zone that does not load, no IN or GLOB matcher, text that is not
// valid UTF-8 or holds control characters, a window that is over already.
absl::Status ValidateWindow(const MaintenanceWindow& window, absl::Time now);

// [start, end), after the cut by MaintenanceWindow::ended_time; never empty.
struct Occurrence {
  absl::Time start;
  absl::Time end;
  bool operator==(const Occurrence&) const = default;
};

// The occurrence that holds `now`; of several that overlap, the one that ends last. A weekly window whose
// zone does not load (tzdata removed after it was saved) has none: better a page too many than one lost.
std::optional<Occurrence> OccurrenceAt(const MaintenanceWindow& window, absl::Time now);
// The first occurrence that starts after `after`. A start that summer time skips is the first instant after
// the gap, one that comes twice is the first of the two; the weekday is the start's.
std::optional<Occurrence> NextOccurrence(const MaintenanceWindow& window, absl::Time after);

enum class WindowState { kScheduled = 1, kActive = 2, kWaiting = 3, kEnded = 4, kCancelled = 5 };

// Numbers as weft.v1.WindowState.
WindowState StateOf(const MaintenanceWindow& window, absl::Time now);

// Whom a window is asked about.
struct LabelSet {
  std::string node_id;
  std::string hostname;
  std::string probe;                        // empty: the finding belongs to no probe
  std::map<std::string, std::string> site;  // "node" and "probe" in here are ignored
};

LabelSet LabelsOf(const Node& node, absl::string_view probe);

// All matchers hold. "node" has two values, hostname and id: IN and GLOB hold if either fits, NOT_IN and
// NOT_GLOB if neither does. A label that is not there has no value: IN and GLOB do not hold, NOT_IN and
// NOT_GLOB do.
bool Matches(const MaintenanceWindow& window, const LabelSet& labels);

// `*` is any run of bytes, `?` one code point; anchored, case-sensitive. Time at most the product of the
// lengths.
bool GlobMatches(absl::string_view glob, absl::string_view text);

// The node of that id, or nullptr; the pointer is good until the next call.
using NodeLookup = std::function<const Node*(absl::string_view node_id)>;

// Ids of the windows open at `now` that cover these labels, sorted.
std::vector<std::string> CoveredBy(const LabelSet& labels, const std::vector<MaintenanceWindow>& windows,
                                   absl::Time now);

// Ids of the windows open at `now` that mute the finding, sorted; empty: not muted.
//   node, NIC: the node is covered.   pair: either end is covered.   rail, leaf: every node named is covered,
//   by whichever windows (one node in maintenance does not hide a switch). No node named (fleet): only a
//   window whose matchers are all on "probe" and hold; a window on nodes cannot hide what concerns everyone.
//   So a window never mutes signals about Weft itself, which name neither.
// Nodes that `nodes` does not know are matched by their id alone.
std::vector<std::string> MutedBy(const Finding& finding, const NodeLookup& nodes,
                                 const std::vector<MaintenanceWindow>& windows, absl::Time now);

// The windows open at `now`: narrows the list once for many questions about the same instant.
std::vector<MaintenanceWindow> OpenWindows(const std::vector<MaintenanceWindow>& windows, absl::Time now);

}  // namespace weft
