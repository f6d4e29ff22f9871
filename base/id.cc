#include "base/id.h"

#include <openssl/rand.h>

#include <array>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace weft {
namespace {

using Bytes16 = std::array<unsigned char, 16>;

void FillRandom(unsigned char* out, size_t n) {
  // Without randomness ids collide and data is lost: better to stop.
  if (RAND_bytes(out, static_cast<int>(n)) != 1) std::abort();
}

std::string Format(Bytes16 b, unsigned version) {
  b[6] = static_cast<unsigned char>((b[6] & 0x0f) | (version << 4));
  b[8] = static_cast<unsigned char>((b[8] & 0x3f) | 0x80);
  const std::string hex =
      absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(b.data()), b.size()));
  return absl::StrCat(hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-", hex.substr(16, 4),
                      "-", hex.substr(20));
}

}  // namespace

std::string RandomUuid() {
  Bytes16 b;
  FillRandom(b.data(), b.size());
  return Format(b, 4);
}

std::string TimeOrderedUuid(absl::Time now) {
  Bytes16 b;
  FillRandom(b.data(), b.size());
  const uint64_t ms = static_cast<uint64_t>(absl::ToUnixMillis(now));
  for (int i = 0; i < 6; ++i) b[static_cast<size_t>(i)] = static_cast<unsigned char>(ms >> (8 * (5 - i)));
  return Format(b, 7);
}

std::string RandomHex(size_t bytes) {
  std::string raw(bytes, '\0');
  FillRandom(reinterpret_cast<unsigned char*>(raw.data()), bytes);
  return absl::BytesToHexString(raw);
}

}  // namespace weft
