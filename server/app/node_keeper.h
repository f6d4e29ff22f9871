// Writes down now and then when agents were last heard of, and at once when one leaves.
#pragma once

#include <map>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/worker.h"
#include "server/api/fleet_view.h"
#include "store/store.h"

namespace weft {

class NodeKeeper {
 public:
  NodeKeeper(Store& store, Clock& clock, const FleetView& view);
  void Start() { worker_.Start(); }
  // Writes all that is known once more.
  void Stop();
  // Any thread.
  void NoteGone(const std::string& node_id, const AgentPresence& last) WEFT_EXCLUDES(mutex_);

 private:
  absl::Duration Step();
  absl::Status Write(bool everything);

  Store& store_;
  Clock& clock_;
  const FleetView& view_;
  absl::Duration next_full_;  // monotonic
  Mutex mutex_;
  std::map<std::string, AgentPresence> gone_ WEFT_GUARDED_BY(mutex_);
  Worker worker_;  // last: stops first
};

}  // namespace weft
