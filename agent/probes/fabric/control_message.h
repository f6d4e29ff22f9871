// What the two ends say to each other beside the measured traffic. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft::fabric {

enum class ControlType : uint16_t {
  kHello = 1,     // rank 1 -> 0: blob = its address; values: HelloValue
  kWelcome = 2,   // rank 0 -> 1: values: HelloValue
  kReady = 3,     // target -> writer: memory is clean, write now
  kDone = 4,      // writer -> target: all writes completed; values[0] = seed
  kReceived = 5,  // target -> writer: Done came
  kChecked = 6,   // target -> writer: contents are right
  kGo = 7,        // both, rank 1 first: blob = address of the endpoint for the latency
  kBye = 8,       // both: nothing more will come
  kAbort = 9,     // blob = why; the peer gives up
};

// Places in ControlMessage::values of kHello and kWelcome.
enum HelloValue : size_t {
  kDigest = 0,         // Parameters::digest
  kRegionAddress = 1,  // where the peer's writes go
  kRegionKey = 2,
  kRegionBytes = 3,
  kLinkRate = 4,  // emulated link in bytes per second, 0 for none
};

struct ControlMessage {
  ControlType type = ControlType::kAbort;
  // Counts the steps of the run alike at both ends, so that ends that disagree notice.
  uint32_t step = 0;
  std::array<uint64_t, 6> values = {};
  std::string blob;  // at most kMaxBlobBytes
};

inline constexpr size_t kSessionBytes = 16;
inline constexpr size_t kMaxBlobBytes = 168;
// All control messages have this length, whatever they hold.
inline constexpr size_t kControlBytes = 256;

// `session` has kSessionBytes bytes and tells this run's messages from a stranger's.
std::string EncodeControl(const ControlMessage& message, absl::string_view session);

// kInvalidArgument, saying what is wrong, for anything that EncodeControl did not make; kPermissionDenied for
// a whole message of another session.
absl::StatusOr<ControlMessage> DecodeControl(absl::string_view bytes, absl::string_view session);

}  // namespace weft::fabric
