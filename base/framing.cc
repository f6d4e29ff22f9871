#include "base/framing.h"

#include <errno.h>
#include <unistd.h>

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace weft {
namespace {

uint32_t DecodeLength(const char* p) {
  uint32_t n = 0;
  for (int i = 3; i >= 0; --i) n = (n << 8) | static_cast<unsigned char>(p[i]);
  return n;
}

absl::Status TooLong(uint32_t length) {
  return absl::InvalidArgumentError(
      absl::StrCat("frame of ", length, " bytes exceeds the limit of ", kMaxFrameBytes));
}

// Reads exactly `n` bytes unless the file ends; returns how many came.
absl::StatusOr<size_t> ReadFully(int fd, char* out, size_t n) {
  size_t done = 0;
  while (done < n) {
    const ssize_t got = read(fd, out + done, n - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, "cannot read a frame");
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

}  // namespace

std::string EncodeFrame(absl::string_view payload) {
  std::string out;
  out.reserve(payload.size() + 4);
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>((payload.size() >> (8 * i)) & 0xff));
  out.append(payload.data(), payload.size());
  return out;
}

absl::StatusOr<std::optional<std::string>> FrameDecoder::Next() {
  if (pending_bytes() < 4) return std::nullopt;
  const uint32_t length = DecodeLength(buffer_.data() + offset_);
  if (length > kMaxFrameBytes) return TooLong(length);
  if (pending_bytes() < 4 + static_cast<size_t>(length)) return std::nullopt;
  std::string payload = buffer_.substr(offset_ + 4, length);
  offset_ += 4 + length;
  if (offset_ == buffer_.size()) {
    buffer_.clear();
    offset_ = 0;
  }
  return payload;
}

absl::Status WriteFrame(int fd, absl::string_view payload) {
  if (payload.size() > kMaxFrameBytes) return TooLong(static_cast<uint32_t>(payload.size()));
  const std::string frame = EncodeFrame(payload);
  size_t done = 0;
  while (done < frame.size()) {
    const ssize_t wrote = write(fd, frame.data() + done, frame.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return absl::ErrnoToStatus(errno, "cannot write a frame");
    done += static_cast<size_t>(wrote);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadFrame(int fd) {
  char head[4];
  absl::StatusOr<size_t> got = ReadFully(fd, head, 4);
  if (!got.ok()) return got.status();
  if (*got == 0) return absl::OutOfRangeError("end of frames");
  if (*got < 4) return absl::DataLossError("frame cut inside its length");
  const uint32_t length = DecodeLength(head);
  if (length > kMaxFrameBytes) return TooLong(length);
  std::string payload(length, '\0');
  got = ReadFully(fd, payload.data(), length);
  if (!got.ok()) return got.status();
  if (*got < length)
    return absl::DataLossError(absl::StrCat("frame cut: ", *got, " of ", length, " bytes came"));
  return payload;
}

}  // namespace weft
