// One AgentService.Connect stream, from its start to its end. Carries messages; understands none.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include <grpcpp/grpcpp.h>

#include "base/mutex.h"
#include "weft/v1/agent.grpc.pb.h"

namespace weft {

// Its owner calls from one thread; gRPC's threads call the On… functions. `wake` is called from gRPC's
// threads whenever there is something new to ask for; it must not block, and may be called shortly after the
// end. At most one message is read ahead and one is being written: a slow owner slows the server, not memory.
class ServerStream : public grpc::ClientBidiReactor<v1::ConnectRequest, v1::ConnectResponse>,
                     public std::enable_shared_from_this<ServerStream> {
 public:
  static std::shared_ptr<ServerStream> Open(v1::AgentService::Stub& stub, std::function<void()> wake);

  // The next message of the server, if one is there.
  std::optional<v1::ConnectResponse> Take() WEFT_EXCLUDES(mutex_);
  // True when Write may be called.
  bool writable() const WEFT_EXCLUDES(mutex_);
  void Write(v1::ConnectRequest message) WEFT_EXCLUDES(mutex_);
  // True when nothing more will come; Close is then to be called.
  bool broken() const WEFT_EXCLUDES(mutex_);
  // Cancels what is under way. Idempotent. The end comes later.
  void Close();
  // How the stream ended; nullopt while it has not.
  std::optional<grpc::Status> ended() const WEFT_EXCLUDES(mutex_);
  // Blocks until the end; after Close that is soon.
  void AwaitEnd() WEFT_EXCLUDES(mutex_);

  void OnReadDone(bool ok) override WEFT_EXCLUDES(mutex_);
  void OnWriteDone(bool ok) override WEFT_EXCLUDES(mutex_);
  void OnDone(const grpc::Status& status) override WEFT_EXCLUDES(mutex_);

 private:
  explicit ServerStream(std::function<void()> wake) : wake_(std::move(wake)) {}

  const std::function<void()> wake_;
  grpc::ClientContext context_;
  bool held_ = false;                   // by the owner's thread, so that it may start reads and writes
  v1::ConnectResponse in_;              // gRPC's while reading_
  v1::ConnectRequest out_;              // gRPC's while writing_
  std::shared_ptr<ServerStream> self_;  // until OnDone: gRPC holds a bare pointer

  mutable Mutex mutex_;
  CondVar ended_cv_;
  bool has_message_ WEFT_GUARDED_BY(mutex_) = false;
  bool writing_ WEFT_GUARDED_BY(mutex_) = false;
  bool broken_ WEFT_GUARDED_BY(mutex_) = false;
  std::optional<grpc::Status> ended_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft
