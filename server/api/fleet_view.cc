#include "server/api/fleet_view.h"

#include <utility>

namespace weft {

uint64_t IngestCounters::rejected_total() const {
  uint64_t total = 0;
  for (const auto& [reason, count] : rejected) total += count;
  return total;
}

FleetView::FleetView(absl::Time start_time)
    : start_time_(start_time), levels_(std::make_shared<const std::vector<NodeLevel>>()) {}

void FleetView::SetConnected(absl::string_view node_id, const AgentPresence& presence) {
  MutexLock lock(mutex_);
  connected_.insert_or_assign(std::string(node_id), presence);
  last_heard_.insert_or_assign(std::string(node_id), presence.last_seen);
}

void FleetView::SetDisconnected(absl::string_view node_id) {
  MutexLock lock(mutex_);
  connected_.erase(std::string(node_id));
}

void FleetView::SetLevels(std::vector<NodeLevel> levels) {
  auto fresh = std::make_shared<const std::vector<NodeLevel>>(std::move(levels));
  MutexLock lock(mutex_);
  levels_ = std::move(fresh);
}

void FleetView::SetDetectorLag(uint64_t results) {
  MutexLock lock(mutex_);
  detector_lag_ = results;
}

void FleetView::AddRejected(absl::string_view reason, uint64_t records) {
  MutexLock lock(mutex_);
  counters_.rejected[std::string(reason)] += records;
}

void FleetView::AddDuplicates(uint64_t records) {
  MutexLock lock(mutex_);
  counters_.duplicates += records;
}

std::map<std::string, AgentPresence, std::less<>> FleetView::Connected() const {
  MutexLock lock(mutex_);
  return connected_;
}

std::map<std::string, absl::Time, std::less<>> FleetView::LastHeard() const {
  MutexLock lock(mutex_);
  return last_heard_;
}

uint64_t FleetView::ConnectedCount() const {
  MutexLock lock(mutex_);
  return connected_.size();
}

std::shared_ptr<const std::vector<NodeLevel>> FleetView::Levels() const {
  MutexLock lock(mutex_);
  return levels_;
}

uint64_t FleetView::DetectorLag() const {
  MutexLock lock(mutex_);
  return detector_lag_;
}

IngestCounters FleetView::Counters() const {
  MutexLock lock(mutex_);
  return counters_;
}

}  // namespace weft
