#include "agent/runner/cancel_token.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace weft {

CancelToken::CancelToken() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

CancelToken::~CancelToken() {
  if (fd_ >= 0) close(fd_);
}

void CancelToken::Cancel() {
  cancelled_.store(true, std::memory_order_release);
  const uint64_t one = 1;
  // The counter cannot fill up in the life of a process, so the write cannot fail in a way that matters.
  if (fd_ >= 0 && write(fd_, &one, sizeof one) < 0) return;
}

}  // namespace weft
