#include "server/http/gzip.h"

#include <zlib.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace weft {
namespace {

// Speed before size: a scrape comes again in seconds.
constexpr int kLevel = 1;
constexpr int kGzipWindowBits = 15 + 16;
constexpr int kDefaultMemoryLevel = 8;

bool IsRefused(absl::string_view parameter) {
  parameter = absl::StripAsciiWhitespace(parameter);
  double quality = 1;
  return absl::StartsWithIgnoreCase(parameter, "q=") && absl::SimpleAtod(parameter.substr(2), &quality) &&
         quality <= 0;
}

}  // namespace

bool AcceptsGzip(absl::string_view accept_encoding) {
  bool any = false;
  for (absl::string_view coding : absl::StrSplit(accept_encoding, ',')) {
    std::vector<absl::string_view> parts = absl::StrSplit(coding, ';');
    const absl::string_view name = absl::StripAsciiWhitespace(parts[0]);
    const bool accepted = parts.size() < 2 || !IsRefused(parts[1]);
    if (absl::EqualsIgnoreCase(name, "gzip")) return accepted;
    if (name == "*") any = accepted;
  }
  return any;
}

absl::StatusOr<std::string> Gzip(absl::string_view data) {
  z_stream stream{};
  if (deflateInit2(&stream, kLevel, Z_DEFLATED, kGzipWindowBits, kDefaultMemoryLevel, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    return absl::InternalError("zlib cannot start a gzip stream");
  }
  std::string compressed(deflateBound(&stream, data.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  const int result = deflate(&stream, Z_FINISH);
  compressed.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) return absl::InternalError("zlib did not finish a gzip stream");
  return compressed;
}

}  // namespace weft
