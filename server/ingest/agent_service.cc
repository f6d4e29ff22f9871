#include "server/ingest/agent_service.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/auth/authorizer.h"
#include "server/ingest/agent_stream.h"

namespace weft {
namespace {

// A stream that is refused before it begins.
class RefusedStream : public grpc::ServerBidiReactor<v1::ConnectRequest, v1::ConnectResponse> {
 public:
  explicit RefusedStream(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace

bool AgentStreams::Send(absl::string_view node_id, v1::ConnectResponse message) {
  std::shared_ptr<AgentStream> stream;
  {
    MutexLock lock(mutex_);
    const auto found = streams_.find(std::string(node_id));
    if (found == streams_.end()) return false;
    stream = found->second;
  }
  stream->Send(std::move(message));
  return true;
}

void AgentStreams::Drain() {
  std::vector<std::shared_ptr<AgentStream>> streams;
  {
    MutexLock lock(mutex_);
    draining_ = true;
    for (const auto& [node_id, stream] : streams_) streams.push_back(stream);
  }
  for (const auto& stream : streams) stream->Close(absl::UnavailableError("the server is stopping"));
}

absl::Status AgentStreams::Enter(const std::string& node_id, std::shared_ptr<AgentStream> stream) {
  std::shared_ptr<AgentStream> older;
  {
    MutexLock lock(mutex_);
    if (draining_) return absl::UnavailableError("the server is stopping");
    std::shared_ptr<AgentStream>& current = streams_[node_id];
    if (current != nullptr && current->boot_id() != stream->boot_id() && !current->IsSilent()) {
      return absl::AlreadyExistsError(absl::StrCat("node id ", node_id,
                                                   " is in use by another agent: was this disk or state "
                                                   "folder cloned? Remove the agent's state folder on the "
                                                   "copy so that it gets an id of its own"));
    }
    older = std::exchange(current, std::move(stream));
  }
  if (older != nullptr) older->Close(absl::AbortedError("replaced by a newer stream of the same node"));
  return absl::OkStatus();
}

bool AgentStreams::Leave(const std::string& node_id, const AgentStream* stream) {
  MutexLock lock(mutex_);
  const auto found = streams_.find(node_id);
  if (found == streams_.end() || found->second.get() != stream) return false;
  streams_.erase(found);
  return true;
}

AgentService::AgentService(AgentServiceOptions options, Store& store, Clock& clock, AgentStreams& streams,
                           std::function<void(AgentEvent)> sink)
    : options_(std::move(options)), store_(store), clock_(clock), streams_(streams), sink_(std::move(sink)) {}

grpc::ServerBidiReactor<v1::ConnectRequest, v1::ConnectResponse>* AgentService::Connect(
    grpc::CallbackServerContext* context) {
  std::string allowed_name;
  if (context->auth_context()->IsPeerAuthenticated()) {
    const absl::StatusOr<Identity> identity = PeerIdentity(*context->auth_context());
    if (!identity.ok()) {
      return new RefusedStream(
          grpc::Status(grpc::StatusCode::UNAUTHENTICATED, std::string(identity.status().message())));
    }
    allowed_name = identity->name;
  }
  return AgentStream::Open(*this, std::move(allowed_name));
}

}  // namespace weft
