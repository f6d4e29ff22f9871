// Length-prefixed frames between the agent and a probe process: four bytes of little-endian length, then the
// payload. Not for sockets of strangers: the length is bounded but there is no checksum.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft {

inline constexpr size_t kMaxFrameBytes = 1 << 20;

// The payload with its length in front.
std::string EncodeFrame(absl::string_view payload);

// Takes bytes as they come and gives whole frames back. One thread.
class FrameDecoder {
 public:
  void Append(absl::string_view bytes) { buffer_.append(bytes.data(), bytes.size()); }
  // The next whole frame; nullopt when more bytes are needed; kInvalidArgument when a length exceeds
  // kMaxFrameBytes (the stream is useless from then on).
  absl::StatusOr<std::optional<std::string>> Next();
  // Bytes of an unfinished frame.
  size_t pending_bytes() const { return buffer_.size() - offset_; }

 private:
  std::string buffer_;
  size_t offset_ = 0;
};

// Blocking write of one frame; retries on EINTR and short writes.
absl::Status WriteFrame(int fd, absl::string_view payload);
// Blocking read of one frame. kOutOfRange at a clean end of file, kDataLoss at one inside a frame.
absl::StatusOr<std::string> ReadFrame(int fd);

}  // namespace weft
