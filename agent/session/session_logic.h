// What an agent answers to its server: leases, starts, cancels, acks and signs of life. Pure: messages and
// times in, actions out; no socket, no thread, no clock.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/spool/spool.h"
#include "weft/v1/agent.pb.h"

namespace weft {

// Spawn the probe.
struct StartRun {
  v1::ProbeRequest request;
};
// Kill the run's probe; its result still comes.
struct KillRun {
  std::string run_id;
  std::string reason;
};
// The server has judged these records.
struct JudgedRecords {
  std::string epoch;
  std::vector<uint64_t> stored;
  std::vector<SpoolRejection> rejected;
};
// A heartbeat is due; the caller knows the numbers.
struct SendHeartbeat {};
// The batch's ack never came: its records are to be offered again.
struct ReturnOffered {};

using SessionAction =
    std::variant<v1::ConnectRequest, StartRun, KillRun, JudgedRecords, SendHeartbeat, ReturnOffered>;
using SessionActions = std::vector<SessionAction>;

// For one thread. `now` is monotonic time everywhere.
class SessionLogic {
 public:
  struct Options {
    // A batch without a complete ack for this long is sent again.
    absl::Duration ack_patience = absl::Seconds(30);
    // Whether a probe that uses GPUs may start now; must not wait. kUnavailable: the node is busy. Unset:
    // GPUs are not watched, and such probes are refused.
    std::function<absl::Status()> check_idle = {};
  };
  explicit SessionLogic(const Options& options) : options_(options) {}

  // A message of the server. Before Welcome everything else is ignored.
  SessionActions OnMessage(const v1::ConnectResponse& message, absl::Duration now);
  // Rank 0's probe offers a way to reach it. Kept until a stream is there to send it on.
  SessionActions OnRendezvous(const std::string& run_id, const std::string& rendezvous);
  // The run's probe is gone and its result is spooled: the node is free again.
  void OnRunEnded(const std::string& run_id);
  // Time has passed.
  SessionActions OnTick(absl::Duration now);
  // The stream is lost. Leases and runs go on: their results wait in the spool.
  void OnDisconnected();

  // True when a batch may be sent: the stream is welcomed and no batch waits for its ack.
  bool MaySendBatch() const { return welcomed_ && unjudged_.empty(); }
  void OnBatchSent(const std::vector<SpooledRecord>& records, absl::Duration now);

  bool welcomed() const { return welcomed_; }
  // As the server last told it; nullopt if it never did.
  std::optional<absl::Duration> reconnect_spread() const { return reconnect_spread_; }
  // When OnTick has something to do next; InfiniteDuration if never.
  absl::Duration NextDue() const;

 private:
  struct HeldLease {
    v1::Lease lease;
    absl::Duration void_at;
  };

  SessionActions OnWelcome(const v1::Welcome& welcome, absl::Duration now);
  SessionActions OnLease(const v1::Lease& lease, absl::Duration now);
  absl::Status CheckIdle(const v1::ProbeSpec& spec) const;
  SessionActions OnStart(const v1::Start& start, absl::Duration now);
  SessionActions OnCancel(const v1::Cancel& cancel);
  SessionActions OnAck(const v1::Ack& ack);
  bool HoldsLease(absl::Duration now) const { return lease_.has_value() && now < lease_->void_at; }

  const Options options_;
  bool welcomed_ = false;
  absl::Duration heartbeat_interval_ = absl::InfiniteDuration();
  absl::Duration next_heartbeat_ = absl::InfiniteDuration();
  std::optional<absl::Duration> reconnect_spread_;
  std::optional<HeldLease> lease_;
  std::string running_;          // run id; empty: none
  std::string rendezvous_;       // of the run, not yet sent
  std::set<uint64_t> unjudged_;  // of the batch under way
  absl::Duration batch_due_ = absl::InfiniteDuration();
};

}  // namespace weft
