// Takes over stdout, where NCCL and its plugins write, and keeps what they say. One thread, which must not be
// the one that may hang: a full pipe would hold NCCL up.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace weft::nccl {

class LogCapture {
 public:
  LogCapture() = default;
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
  ~LogCapture();

  // Puts a pipe in stdout's place.
  absl::Status Start();
  // Readable when there is something; -1 before Start.
  int fd() const { return read_fd_; }
  // Takes what is there, without waiting, and passes it on to what was stdout.
  void Drain();
  // Lines so far, as they came, the last one perhaps unfinished: what a parser of NCCL's log gets. Complete
  // up to 8 MiB.
  std::vector<std::string> Lines() const;
  // At most `max_bytes`: the whole, or its first and last part.
  struct Excerpt {
    std::string text;
    uint64_t left_out = 0;  // bytes between the two parts
  };
  Excerpt Cut(size_t max_bytes) const;

 private:
  int read_fd_ = -1;
  int old_stdout_ = -1;
  std::string bytes_;
  uint64_t lost_ = 0;  // beyond the limit
};

}  // namespace weft::nccl
