// The agents' end of the server: weft.v1.AgentService.
//
// Each stream is one reactor: hello first, then messages one at a time. A batch is validated record by
// record, given to the store, and acked from the store's callback after the commit; the next message is read
// only then, so that one agent never has more than one batch under way. Results that the store cannot take
// now are left unjudged in the ack and come again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "server/ingest/agent_events.h"
#include "store/store.h"
#include "weft/v1/agent.grpc.pb.h"

namespace weft {

class AgentStream;

// Open streams by node id. Thread-safe.
class AgentStreams {
 public:
  // Queues a message; false if the agent is not connected (the message is dropped).
  bool Send(absl::string_view node_id, v1::ConnectResponse message) WEFT_EXCLUDES(mutex_);
  // Ends every stream with UNAVAILABLE; later ones are refused. For shutdown.
  void Drain() WEFT_EXCLUDES(mutex_);

 private:
  friend class AgentStream;
  // A stream takes the place of an older one of the same agent process, or of one that has been silent for
  // two heartbeats; kAlreadyExists while another process uses the node id, so an agent whose machine lost
  // power may have to try for that long; kUnavailable when draining.
  absl::Status Enter(const std::string& node_id, std::shared_ptr<AgentStream> stream) WEFT_EXCLUDES(mutex_);
  // True if `stream` was the current one of the node.
  bool Leave(const std::string& node_id, const AgentStream* stream) WEFT_EXCLUDES(mutex_);

  Mutex mutex_;
  bool draining_ WEFT_GUARDED_BY(mutex_) = false;
  std::map<std::string, std::shared_ptr<AgentStream>, std::less<>> streams_ WEFT_GUARDED_BY(mutex_);
};

struct AgentServiceOptions {
  absl::Duration heartbeat_interval = absl::Seconds(15);
  absl::Duration reconnect_spread = absl::Seconds(5);
  std::string server_version;
};

class AgentService : public v1::AgentService::CallbackService {
 public:
  // `sink` is called from gRPC's and the store's threads, must be quick and not block. All must outlive the
  // server.
  AgentService(AgentServiceOptions options, Store& store, Clock& clock, AgentStreams& streams,
               std::function<void(AgentEvent)> sink);
  grpc::ServerBidiReactor<v1::ConnectRequest, v1::ConnectResponse>* Connect(
      grpc::CallbackServerContext* context) override;

 private:
  friend class AgentStream;
  const AgentServiceOptions options_;
  Store& store_;
  Clock& clock_;
  AgentStreams& streams_;
  const std::function<void(AgentEvent)> sink_;
};

}  // namespace weft
