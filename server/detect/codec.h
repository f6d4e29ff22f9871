// Fixed little-endian encoding of the detector's memory. Not for input of strangers, but a damaged blob is
// noticed: every read is checked, and `ok()` is false from the first one that failed. Used by one thread.
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace weft {

class BlobWriter {
 public:
  void U64(uint64_t value) {
    for (int i = 0; i < 8; ++i) blob_.push_back(static_cast<char>(value >> (8 * i)));
  }
  void U8(uint8_t value) { blob_.push_back(static_cast<char>(value)); }
  void F64(double value) { U64(std::bit_cast<uint64_t>(value)); }
  void Instant(absl::Time time) {
    // The far past is the only infinite time that is kept.
    U64(static_cast<uint64_t>(time == absl::InfinitePast() ? INT64_MIN : absl::ToUnixNanos(time)));
  }
  void Text(absl::string_view text) {
    U64(text.size());
    blob_.append(text.data(), text.size());
  }
  std::string Take() { return std::move(blob_); }

 private:
  std::string blob_;
};

class BlobReader {
 public:
  explicit BlobReader(absl::string_view blob) : rest_(blob) {}
  uint64_t U64() {
    uint64_t value = 0;
    const absl::string_view bytes = Bytes(8);
    for (size_t i = 0; i < bytes.size(); ++i) {
      value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    }
    return value;
  }
  uint8_t U8() {
    const absl::string_view bytes = Bytes(1);
    return bytes.empty() ? uint8_t{0} : static_cast<uint8_t>(bytes[0]);
  }
  double F64() { return std::bit_cast<double>(U64()); }
  absl::Time Instant() {
    const auto nanos = static_cast<int64_t>(U64());
    return nanos == INT64_MIN ? absl::InfinitePast() : absl::FromUnixNanos(nanos);
  }
  std::string Text() { return std::string(Bytes(U64())); }
  // A count of things that take at least one byte each.
  size_t Count() {
    const uint64_t count = U64();
    if (count > rest_.size()) ok_ = false;
    return ok_ ? static_cast<size_t>(count) : 0;
  }
  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && rest_.empty(); }

 private:
  absl::string_view Bytes(uint64_t n) {
    if (!ok_ || n > rest_.size()) {
      ok_ = false;
      return {};
    }
    const absl::string_view bytes = rest_.substr(0, static_cast<size_t>(n));
    rest_.remove_prefix(static_cast<size_t>(n));
    return bytes;
  }

  absl::string_view rest_;
  bool ok_ = true;
};

}  // namespace weft
