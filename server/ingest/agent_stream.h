// One agent's stream, as a gRPC callback reactor. See agent_service.h.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/ingest/agent_service.h"

namespace weft {

// Owned by itself until gRPC is done with it; AgentStreams may hold it a little longer. gRPC calls On…; any
// thread may call Send and Close.
class AgentStream : public grpc::ServerBidiReactor<v1::ConnectRequest, v1::ConnectResponse>,
                    public std::enable_shared_from_this<AgentStream> {
 public:
  // Starts reading. `allowed_name` is the name in the client's certificate; empty without TLS.
  static AgentStream* Open(AgentService& service, std::string allowed_name);

  // Queues a message; ends the stream with RESOURCE_EXHAUSTED when the agent does not read.
  void Send(v1::ConnectResponse message) WEFT_EXCLUDES(mutex_);
  // Ends the stream; later messages are dropped. Idempotent.
  void Close(const absl::Status& status) WEFT_EXCLUDES(mutex_);

  const std::string& boot_id() const { return boot_id_; }
  // True if nothing came for two heartbeats.
  bool IsSilent() WEFT_EXCLUDES(mutex_);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  AgentStream(AgentService& service, std::string allowed_name);
  void Handle();
  absl::Status HandleHello(const v1::Hello& hello);
  absl::Status HandleHeartbeat(const v1::Heartbeat& heartbeat);
  // kPermissionDenied when the stream's certificate is another's.
  absl::Status CheckName(const v1::Node& node) const;
  void HandleLeaseReply(const v1::LeaseReply& reply);
  absl::Status HandleRendezvous(v1::Rendezvous& rendezvous);
  // Reads on by itself once the batch is judged.
  absl::Status HandleResults(v1::ResultBatch& batch);
  void AckBatch(const absl::StatusOr<ResultAppendOutcome>& outcome, v1::Ack ack,
                const std::map<uint64_t, ResultStored>& results);
  void ReadNext() WEFT_EXCLUDES(mutex_);
  void Emit(AgentEvent event) { service_.sink_(std::move(event)); }

  AgentService& service_;
  const std::string allowed_name_;
  std::shared_ptr<AgentStream> self_;  // until OnDone
  v1::ConnectRequest request_;         // being read
  // Set by the hello, unchanging afterwards.
  std::string node_id_;
  std::string boot_id_;
  std::string epoch_;

  Mutex mutex_;
  absl::Duration last_heard_ WEFT_GUARDED_BY(mutex_);                 // monotonic
  std::deque<v1::ConnectResponse> outgoing_ WEFT_GUARDED_BY(mutex_);  // front is being written
  bool closed_ WEFT_GUARDED_BY(mutex_) = false;
};

}  // namespace weft
