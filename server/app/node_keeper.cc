#include "server/app/node_keeper.h"

#include <utility>

#include "spdlog/spdlog.h"

namespace weft {
namespace {

constexpr absl::Duration kFullEvery = absl::Minutes(5);

}  // namespace

NodeKeeper::NodeKeeper(Store& store, Clock& clock, const FleetView& view)
    : store_(store),
      clock_(clock),
      view_(view),
      next_full_(clock.Monotonic() + kFullEvery),
      worker_("nodes", clock, [this] { return Step(); }) {}

void NodeKeeper::Stop() {
  worker_.Stop();
  if (absl::Status status = Write(true); !status.ok()) {
    spdlog::warn("last signs of life not stored: {}", std::string(status.message()));
  }
}

void NodeKeeper::NoteGone(const std::string& node_id, const AgentPresence& last) {
  {
    MutexLock lock(mutex_);
    gone_[node_id] = last;
  }
  worker_.Wake();
}

absl::Duration NodeKeeper::Step() {
  const bool full = clock_.Monotonic() >= next_full_;
  if (absl::Status status = Write(full); !status.ok()) {
    spdlog::warn("signs of life not stored, will try again: {}", std::string(status.message()));
    return absl::Seconds(5);
  }
  if (full) next_full_ = clock_.Monotonic() + kFullEvery;
  return next_full_ - clock_.Monotonic();
}

absl::Status NodeKeeper::Write(bool everything) {
  std::map<std::string, AgentPresence> wanted;
  {
    MutexLock lock(mutex_);
    wanted = gone_;
  }
  const std::map<std::string, AgentPresence> noted = wanted;
  if (everything) {
    for (const auto& [id, presence] : view_.Connected()) wanted[id] = presence;
  }
  if (wanted.empty()) return absl::OkStatus();
  absl::StatusOr<std::vector<NodeRecord>> records = store_.ListNodes();
  if (!records.ok()) return records.status();
  for (NodeRecord& record : *records) {
    const auto found = wanted.find(record.node.id);
    if (found == wanted.end() || found->second.last_seen <= record.last_seen) continue;
    record.last_seen = found->second.last_seen;
    record.clock_offset = found->second.clock_offset;
    record.spool_lost_records = found->second.spool_lost_records;
    if (absl::Status status = store_.PutNode(record); !status.ok()) return status;
  }
  MutexLock lock(mutex_);
  for (const auto& [id, presence] : noted) {
    const auto still = gone_.find(id);
    if (still != gone_.end() && still->second == presence) gone_.erase(still);
  }
  return absl::OkStatus();
}

}  // namespace weft
