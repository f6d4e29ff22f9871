// What `weft check node` says and how it exits. Pure.
//
// Missing, stale and unknown are never OK: only a node measured lately with no finding against it is.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "google/protobuf/repeated_field.h"
#include "weft/v1/finding.pb.h"
#include "weft/v1/fleet.pb.h"

namespace weft::cli {

enum class Verdict { kOk, kWarning, kCritical, kUnknown };
enum class ExitStyle { kNagios, kNpd, kBool };

using Findings = google::protobuf::RepeatedPtrField<v1::Finding>;

struct CheckReport {
  Verdict verdict = Verdict::kUnknown;
  std::string node;    // as it was asked for, or its hostname
  std::string detail;  // why
  std::string line;    // all of it in one line, escaped, without its break
};

// "OK", "WARNING", "CRITICAL" or "UNKNOWN".
const char* VerdictName(Verdict verdict);

// `findings`: the open ones that name the node. One that blames the node itself decides before its state
// does.
CheckReport ReportOf(const v1::NodeStatus& status, const Findings& findings, absl::Time now);
// When the server did not tell.
CheckReport ReportOf(const std::string& node, const absl::Status& failure);

int CheckExitCode(Verdict verdict, ExitStyle style);

}  // namespace weft::cli
