// Holds the agent's stream to its server: connects for ever, answers, sends what is in the spool.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/runner/runner.h"
#include "agent/session/reconnect.h"
#include "agent/session/run_thread.h"
#include "agent/session/server_stream.h"
#include "agent/session/session_logic.h"
#include "agent/spool/spool.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/worker.h"
#include "weft/v1/agent.grpc.pb.h"

namespace weft {

// A channel with the agents' settings: keepalive, no proxy, small messages. `credentials` are mutual TLS or
// grpc::InsecureChannelCredentials(). One channel serves an agent for its whole life, and is kept until the
// process ends.
std::shared_ptr<grpc::Channel> MakeAgentChannel(const std::string& server_address,
                                                const std::shared_ptr<grpc::ChannelCredentials>& credentials);

// Start and Stop from one thread; the rest is its own business. Runs go on while the stream is down; results
// wait in the spool, which is the only thing that outlives the session.
class AgentSession {
 public:
  struct Options {
    std::string node_id;
    std::string boot_id;
    ReconnectWaits::Options reconnect;
    // A server that does not read for this long, or sends no Welcome, loses the stream.
    absl::Duration patience = absl::Seconds(30);
  };
  struct Parts {
    std::shared_ptr<grpc::Channel> channel;
    Spool* spool;
    ProbeRunner* runner;
    Clock* clock;
    // The node as it is now; asked before each hello, on the session's thread.
    std::function<v1::Node()> describe_node;
    // See RunThread::Events.
    std::function<absl::StatusOr<double>()> emulated_rate;
    // The node, if it has changed since either was asked; asked before each heartbeat, on the session's
    // thread. Unset: it never changes.
    std::function<std::optional<v1::Node>()> describe_change = {};
    // Proves GPUs idle; outlives the session. Null: probes that use them are refused.
    const IdleProof* idle = nullptr;
    TransportOptions transport = {};
  };

  AgentSession(const Options& options, Parts parts);
  ~AgentSession();

  void Start();
  // Kills a running probe and spools its result, ends the stream. A few seconds at most. Idempotent.
  void Stop();

 private:
  // Lets gRPC's threads wake the loop, also when the loop is already gone.
  struct Bell {
    Mutex mutex;
    Worker* worker WEFT_GUARDED_BY(mutex);
    void Ring() WEFT_EXCLUDES(mutex);
  };
  struct RunEvent {
    std::string run_id;
    std::string rendezvous;  // empty: the run has ended
  };

  absl::Duration Step() WEFT_EXCLUDES(mutex_);
  absl::Duration LongestWait() WEFT_EXCLUDES(mutex_);
  bool MayConnect(absl::Duration now);
  void Connect();
  void Converse(absl::Duration now);
  void HandleEnd(const grpc::Status& status, absl::Duration now);
  void CheckPatience(absl::Duration now);
  void Apply(SessionActions actions);
  void Perform(v1::ConnectRequest message);
  void Perform(const StartRun& start);
  void Perform(const KillRun& kill);
  void Perform(const JudgedRecords& judged);
  void Perform(const SendHeartbeat&);
  void Perform(const ReturnOffered&);
  void QueueBatch(absl::Duration now);
  void WriteNext(absl::Duration now);
  void HandleRunEvents() WEFT_EXCLUDES(mutex_);
  v1::ConnectRequest MakeHello() const;
  // On the run thread.
  void OnResult(v1::Result result) WEFT_EXCLUDES(mutex_);
  void AddRunEvent(RunEvent event) WEFT_EXCLUDES(mutex_);
  // Puts results into the spool; those that a full disk refuses are kept for later, a few of them. On the
  // loop, and after it.
  void SpoolPending() WEFT_EXCLUDES(mutex_);

  const Options options_;
  const Parts parts_;
  const std::unique_ptr<v1::AgentService::Stub> stub_;

  // The loop's own.
  SessionLogic logic_;
  ReconnectWaits waits_;
  std::shared_ptr<ServerStream> stream_;
  std::deque<v1::ConnectRequest> outgoing_;
  absl::Duration next_connect_ = -absl::InfiniteDuration();
  bool dialled_ = false;                                     // the channel was told to, for the next stream
  absl::Duration write_since_ = absl::InfiniteDuration();    // of the write under way
  absl::Duration connect_since_ = absl::InfiniteDuration();  // until the Welcome
  std::string last_cause_;
  std::string close_cause_;  // why the agent itself closes the stream; empty: it does not

  Mutex mutex_;
  std::vector<RunEvent> run_events_ WEFT_GUARDED_BY(mutex_);
  std::deque<std::string> pending_results_ WEFT_GUARDED_BY(mutex_);  // serialised; not yet in the spool
  uint64_t lost_results_ WEFT_GUARDED_BY(mutex_) = 0;

  RunThread runs_;
  Worker worker_;
  const std::shared_ptr<Bell> bell_;
  bool stopped_ = false;
};

}  // namespace weft
