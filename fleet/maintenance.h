// Maintenance windows as plain values; their logic is in server/alert/window.h. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/civil_time.h"
#include "absl/time/time.h"

namespace weft {

enum class MatchOperator { kIn = 1, kNotIn = 2, kGlob = 3, kNotGlob = 4 };

struct Matcher {
  std::string label;  // "node" (hostname or id), "probe", or a site label
  MatchOperator op = MatchOperator::kIn;
  std::vector<std::string> values;
  bool operator==(const Matcher&) const = default;
};

// [start, end)
struct OneOff {
  absl::Time start;
  absl::Time end;
  bool operator==(const OneOff&) const = default;
};

// Starts on `weekdays` at `start_minute` of the civil day in `time_zone`, lasts `duration` of elapsed time.
struct Weekly {
  std::vector<absl::Weekday> weekdays;
  uint32_t start_minute = 0;  // 0 to 1439
  absl::Duration duration;
  std::string time_zone;  // IANA
  absl::Time until;       // occurrences start before this
  bool operator==(const Weekly&) const = default;
};

struct MaintenanceWindow {
  std::string id;
  std::vector<Matcher> matchers;
  std::variant<OneOff, Weekly> schedule;
  std::string reason;
  std::string created_by;
  absl::Time create_time = absl::InfinitePast();
  absl::Time ended_time = absl::InfiniteFuture();  // when ended by hand
  std::string ended_by;
  uint64_t revision = 1;
  std::string request_id;  // of the create call; empty if none
  bool operator==(const MaintenanceWindow&) const = default;
};

}  // namespace weft
