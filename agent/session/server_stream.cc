#include "agent/session/server_stream.h"

#include <utility>

namespace weft {

std::shared_ptr<ServerStream> ServerStream::Open(v1::AgentService::Stub& stub, std::function<void()> wake) {
  std::shared_ptr<ServerStream> stream(new ServerStream(std::move(wake)));
  stream->self_ = stream;
  stub.async()->Connect(&stream->context_, stream.get());
  stream->AddHold();
  stream->held_ = true;
  stream->StartRead(&stream->in_);
  stream->StartCall();
  return stream;
}

std::optional<v1::ConnectResponse> ServerStream::Take() {
  {
    MutexLock lock(mutex_);
    if (!has_message_ || broken_) return std::nullopt;
    has_message_ = false;
  }
  std::optional<v1::ConnectResponse> message = std::move(in_);
  in_.Clear();
  if (held_) StartRead(&in_);
  return message;
}

bool ServerStream::writable() const {
  MutexLock lock(mutex_);
  return !writing_ && !broken_ && held_;
}

void ServerStream::Write(v1::ConnectRequest message) {
  {
    MutexLock lock(mutex_);
    writing_ = true;
  }
  out_ = std::move(message);
  StartWrite(&out_);
}

bool ServerStream::broken() const {
  MutexLock lock(mutex_);
  return broken_;
}

void ServerStream::Close() {
  if (!held_) return;
  held_ = false;
  context_.TryCancel();
  RemoveHold();
}

std::optional<grpc::Status> ServerStream::ended() const {
  MutexLock lock(mutex_);
  return ended_;
}

void ServerStream::AwaitEnd() {
  MutexLock lock(mutex_);
  while (!ended_.has_value()) ended_cv_.Wait(mutex_);
}

void ServerStream::OnReadDone(bool ok) {
  {
    MutexLock lock(mutex_);
    (ok ? has_message_ : broken_) = true;
  }
  wake_();
}

void ServerStream::OnWriteDone(bool ok) {
  {
    MutexLock lock(mutex_);
    writing_ = false;
    if (!ok) broken_ = true;
  }
  wake_();
}

void ServerStream::OnDone(const grpc::Status& status) {
  const std::shared_ptr<ServerStream> keep = std::move(self_);
  {
    MutexLock lock(mutex_);
    broken_ = true;
    ended_ = status;
    ended_cv_.NotifyAll();
  }
  wake_();
}

}  // namespace weft
