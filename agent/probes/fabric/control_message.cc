#include "agent/probes/fabric/control_message.h"

#include <algorithm>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "base/crc32c.h"

namespace weft::fabric {
namespace {

// Layout, little-endian: magic u32, version u16, type u16, step u32, blob length u32, session, values,
// blob padded with zeros, CRC-32C of all before it.
constexpr uint32_t kMagic = 0x54464557;  // "WEFT"
constexpr uint16_t kVersion = 1;
constexpr size_t kCrcBytes = 4;

template <typename T>
void Put(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
}

template <typename T>
T Take(absl::string_view& in) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | static_cast<T>(static_cast<T>(static_cast<uint8_t>(in[i])) << (8 * i)));
  in.remove_prefix(sizeof(T));
  return value;
}

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("control message: ", what));
}

// The fields behind the header; `in` has their full length.
absl::StatusOr<ControlMessage> TakeBody(absl::string_view in, absl::string_view session) {
  ControlMessage message;
  const auto type = Take<uint16_t>(in);
  message.step = Take<uint32_t>(in);
  const auto blob_bytes = Take<uint32_t>(in);
  if (type < static_cast<uint16_t>(ControlType::kHello) || type > static_cast<uint16_t>(ControlType::kAbort))
    return Malformed(absl::StrCat("unknown type ", type));
  if (blob_bytes > kMaxBlobBytes) return Malformed(absl::StrCat("blob of ", blob_bytes, " bytes"));
  message.type = static_cast<ControlType>(type);
  if (in.substr(0, kSessionBytes) != session)
    return absl::PermissionDeniedError("message of another session");
  in.remove_prefix(kSessionBytes);
  for (uint64_t& value : message.values) value = Take<uint64_t>(in);
  message.blob = std::string(in.substr(0, blob_bytes));
  return message;
}

}  // namespace

std::string EncodeControl(const ControlMessage& message, absl::string_view session) {
  std::string out;
  out.reserve(kControlBytes);
  const absl::string_view blob = absl::string_view(message.blob).substr(0, kMaxBlobBytes);
  Put(out, kMagic);
  Put(out, kVersion);
  Put(out, static_cast<uint16_t>(message.type));
  Put(out, message.step);
  Put(out, static_cast<uint32_t>(blob.size()));
  absl::StrAppend(&out, session);
  for (const uint64_t value : message.values) Put(out, value);
  absl::StrAppend(&out, blob);
  out.resize(kControlBytes - kCrcBytes, '\0');
  Put(out, Crc32c(out));
  return out;
}

absl::StatusOr<ControlMessage> DecodeControl(absl::string_view bytes, absl::string_view session) {
  if (bytes.size() != kControlBytes) return Malformed(absl::StrCat("length ", bytes.size()));
  absl::string_view crc = bytes.substr(kControlBytes - kCrcBytes);
  if (Take<uint32_t>(crc) != Crc32c(bytes.substr(0, kControlBytes - kCrcBytes)))
    return Malformed("wrong CRC");
  if (Take<uint32_t>(bytes) != kMagic) return Malformed("wrong magic");
  if (const auto version = Take<uint16_t>(bytes); version != kVersion)
    return Malformed(absl::StrCat("version ", version, "; both ends need the same weft-probe-fabric"));
  return TakeBody(bytes, session);
}

}  // namespace weft::fabric
