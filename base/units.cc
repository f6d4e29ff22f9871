#include "base/units.h"

#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace weft {
namespace {

std::string ThreeDigits(double value) {
  const int decimals = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return absl::StrFormat("%.*f", decimals, value);
}

template <size_t N>
std::string Scaled(double value, double step, const std::array<const char*, N>& units) {
  size_t i = 0;
  while (i + 1 < N && value >= 999.5) {
    value /= step;
    ++i;
  }
  return absl::StrCat(ThreeDigits(value), " ", units[i]);
}

}  // namespace

std::string FormatBandwidth(double bytes_per_second) {
  return Scaled<5>(bytes_per_second, 1e3, {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"});
}

std::string FormatMessageSize(uint64_t bytes) {
  static constexpr std::array<const char*, 4> kUnits = {"B", "KiB", "MiB", "GiB"};
  size_t i = 0;
  while (i + 1 < kUnits.size() && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++i;
  }
  return absl::StrCat(bytes, " ", kUnits[i]);
}

std::string FormatAge(absl::Duration age) {
  if (age == absl::InfiniteDuration()) return "never";
  const int64_t s = std::max<int64_t>(0, absl::ToInt64Seconds(age));
  if (s < 120) return absl::StrCat(s, "s");
  if (s < 120 * 60) return absl::StrCat(s / 60, "m");
  if (s < 48 * 3600) return absl::StrCat(s / 3600, "h");
  return absl::StrCat(s / 86400, "d");
}

std::string FormatLatency(double seconds) {
  if (seconds < 1e-6) return absl::StrCat(ThreeDigits(seconds * 1e9), " ns");
  if (seconds < 1e-3) return absl::StrCat(ThreeDigits(seconds * 1e6), " us");
  if (seconds < 1) return absl::StrCat(ThreeDigits(seconds * 1e3), " ms");
  return absl::StrCat(ThreeDigits(seconds), " s");
}

}  // namespace weft
