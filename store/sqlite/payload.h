// Values as bytes of weft.v1 messages, for columns that no query looks into. Any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "fleet/finding.h"
#include "fleet/maintenance.h"
#include "fleet/node.h"
#include "fleet/probe.h"

namespace weft::sqlite {

// The Encode functions fail with kInvalidArgument for what could not be read back (text that is not UTF-8,
// unknown enumerators) and for numbers that are NaN or infinite.
absl::StatusOr<std::string> Encode(const Node& node);
absl::StatusOr<std::string> Encode(const ProbeSpec& spec);
absl::StatusOr<std::string> Encode(const Result& result);             // without run_id and node_id
absl::StatusOr<std::string> Encode(const Episode& episode);           // without id, notified and times
absl::StatusOr<std::string> Encode(const MaintenanceWindow& window);  // without request_id

// The Decode functions fail with kDataLoss: Encode wrote the bytes, so they were damaged since.
absl::Status Decode(absl::string_view bytes, Node* node);
absl::Status Decode(absl::string_view bytes, ProbeSpec* spec);
absl::Status Decode(absl::string_view bytes, Result* result);
absl::Status Decode(absl::string_view bytes, Episode* episode);
absl::Status Decode(absl::string_view bytes, MaintenanceWindow* window);

}  // namespace weft::sqlite
