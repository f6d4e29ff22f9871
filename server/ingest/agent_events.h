// What agents' streams tell the rest of the server. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "fleet/node.h"
#include "fleet/probe.h"
#include "weft/v1/agent.pb.h"

namespace weft {

// The agent's stream is open, its node stored.
struct AgentConnected {
  NodeRecord record;
  std::vector<std::string> probe_kinds;  // what it can run, as Hello names it
};
// The stream is closed.
struct AgentGone {};
// A sign of life.
struct AgentHeartbeat {
  absl::Time received;
  absl::Duration clock_offset;  // agent minus server
  uint64_t spool_lost_records = 0;
  uint64_t spool_damaged_files = 0;
};
struct LeaseAnswered {
  std::string run_id;
  bool accepted = false;
  Outcome outcome = Outcome::kRefused;  // when not accepted
  std::string detail;
};
struct RendezvousOffered {
  std::string run_id;
  std::string bytes;
};
// A result is in the store.
struct ResultStored {
  std::string run_id;
  Outcome outcome = Outcome::kOk;
  std::string detail;  // empty when OK
};
struct RecordsRefused {
  v1::RejectReason reason = v1::REJECT_REASON_UNSPECIFIED;
  uint64_t records = 0;
};
struct RecordsRepeated {
  uint64_t records = 0;
};

struct AgentEvent {
  std::string node_id;
  std::variant<AgentConnected, AgentGone, AgentHeartbeat, LeaseAnswered, RendezvousOffered, ResultStored,
               RecordsRefused, RecordsRepeated>
      what;
};

}  // namespace weft
