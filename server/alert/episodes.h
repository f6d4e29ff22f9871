// From what the detector believes to what people are told: opens, updates and resolves episodes and queues or
// drops their notifications. Pure but for the random part of new ids. Any thread.
//
// Rules (the reasons are in docs and in the tests' names):
//   - At most one open episode per Finding::Key().
//   - SEVERITY_INFO and transients are kept and never told.
//   - Muted: everything goes on except that no trigger is queued, and triggers still pending are dropped.
//   - No window covers it any more and it is still open: one trigger for each receiver that was not told yet,
//   with
//     the real start and a note that names the windows. Who was told already is not told again.
//   - Resolved: a resolve, also inside a window, for each receiver that accepted a trigger or may have;
//   pending
//     triggers are dropped; nobody else hears anything.
//   - Sequence numbers rise within (receiver, episode). Nothing is queued after a resolve.
//   - A finding that comes back after its resolve is a new episode.
//
// Call it only with everything loaded: windows, open episodes, outbox, and a detector that is restored and
// has caught up; a finding that is not in `findings` is taken to be over. All inputs come from the store or
// follow from it, and the changes are committed as one (Store::CommitDetection), so that a crash in between
// repeats the step and doubles nothing. The lock that this needs is described in outbox.h.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "fleet/finding.h"
#include "fleet/maintenance.h"
#include "server/alert/window.h"

namespace weft {

struct EpisodeInput {
  std::vector<Finding> findings;  // all that hold now
  std::vector<Episode> open_episodes;
  std::vector<MaintenanceWindow> windows;
  NodeLookup nodes;                    // for labels and hostnames
  std::vector<std::string> receivers;  // configured names
  std::vector<Delivery> deliveries;    // all pending ones, and all of the episodes in EpisodesToLookUp
  std::string external_url;            // base of links; empty: no links
  std::map<std::string, absl::Time>
      end_times;  // by Finding::Key(): when a finding ended, where known; else `now`
  std::map<std::string, std::string>
      end_notes;  // by Finding::Key(): why it ended, where there is more to say
};

struct EpisodeChanges {
  std::vector<Episode> episodes;             // new, updated or resolved
  std::vector<Delivery> deliveries;          // to insert
  std::vector<std::string> drop_deliveries;  // ids of pending ones
  bool empty() const { return episodes.empty() && deliveries.empty() && drop_deliveries.empty(); }
  bool operator==(const EpisodeChanges&) const = default;
};

// Ids of the open episodes whose deliveries Reconcile wants to see whatever their state: those that end, and
// those that a window has just let go or that have just become worth telling. `deliveries` need not be filled
// yet. Usually none.
std::vector<std::string> EpisodesToLookUp(const EpisodeInput& input, absl::Time now);

// What to write. Empty when nothing material changed: severity, start, mutes, a ratio by 0.02 or confidence
// by 0.05, or evidence that is 5 minutes newer than what is stored.
EpisodeChanges Reconcile(const EpisodeInput& input, absl::Time now);

// Body of a notification: weft.v1.WebhookEvent as JSON, always the same for the same arguments, valid UTF-8
// whatever the inputs hold, at most 1,024 code points of summary.
std::string EventBody(const Episode& episode, DeliveryAction action, uint32_t sequence,
                      const NodeLookup& nodes, absl::string_view external_url, absl::string_view note);

}  // namespace weft
