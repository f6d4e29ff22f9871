// What an agent may send. Pure; any thread.
#pragma once

#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "fleet/probe.h"
#include "weft/v1/agent.pb.h"

namespace weft {

inline constexpr size_t kMaxRecordBytes = 256 << 10;
inline constexpr int kMaxMeasurements = 1024;
inline constexpr int kMaxRecordsPerBatch = 4096;

// Why a record is refused for good.
struct RecordRefusal {
  v1::RejectReason reason = v1::REJECT_REASON_MALFORMED;
  std::string detail;
};

// Parses and checks one record of `node_id`'s stream, without looking at the store.
std::variant<Result, RecordRefusal> ValidateRecord(const v1::SpoolRecord& record, absl::string_view node_id);

// kInvalidArgument naming every field that is wrong.
absl::Status ValidateHello(const v1::Hello& hello);
// The same for a node that an agent describes anew.
absl::Status ValidateNode(const v1::Node& node);

}  // namespace weft
