// Dials the server's own gRPC port. gRPC 1.51 never accepts again once accept() has failed for want of file
// descriptors; nothing but a restart helps, so somebody has to notice.
#pragma once

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/worker.h"

namespace weft {

// Connects, says nothing, and waits for the other side to speak or hang up: a listening socket whose process
// no longer accepts does neither. kDeadlineExceeded then; another error when the connection is refused. Works
// the same with and without TLS. Blocks up to `timeout`.
absl::Status CheckAccepts(const std::string& host, int port, absl::Duration timeout);

class PortWatch {
 public:
  // Checks `port` of `host` (0.0.0.0 and :: mean loopback) every `every`; three failures in a row are a
  // failure.
  PortWatch(std::string host, int port, Clock& clock, absl::Duration every = absl::Seconds(10));
  void Start() { worker_.Start(); }
  void Stop() { worker_.Stop(); }
  // Any thread.
  bool failed() const { return failures_ >= 3; }

 private:
  absl::Duration Step();

  const std::string host_;
  const int port_;
  const absl::Duration every_;
  std::atomic<int> failures_ = 0;
  Worker worker_;  // last: stops first
};

}  // namespace weft
