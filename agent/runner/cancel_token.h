// A way to call off work that blocks in poll(2).
#pragma once

#include <atomic>

namespace weft {

// Thread-safe. Once cancelled, for ever cancelled.
class CancelToken {
 public:
  CancelToken();
  ~CancelToken();
  CancelToken(const CancelToken&) = delete;
  CancelToken& operator=(const CancelToken&) = delete;

  void Cancel();
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  // Readable once cancelled; -1 when the process had no descriptor left (then only cancelled() tells).
  int fd() const { return fd_; }

 private:
  std::atomic<bool> cancelled_{false};
  const int fd_;
};

}  // namespace weft
