// Times as people type and read them. Pure, except LocalZone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"

namespace weft::cli {

// The machine's zone, or UTC if it has none.
absl::TimeZone LocalZone();

// RFC 3339 ("2026-12-01T22:00:00+01:00"), or a civil time of `zone`: "2026-12-01 22:00[:00]",
// "2026-12-01" (midnight), "22:00" (the next one after `now`), or "now". A civil time that comes twice is the
// first one. kInvalidArgument: anything else, or a civil time that summer time skips.
absl::StatusOr<absl::Time> ParseTime(absl::string_view text, absl::Time now, absl::TimeZone zone);

// "90s", "30m", "1h30m", "2d", "1w"; positive, at most 366 days.
absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text);

// Since when: a duration before `now` ("6h"), or a time as ParseTime reads it.
absl::StatusOr<absl::Time> ParseSince(absl::string_view text, absl::Time now, absl::TimeZone zone);

// "22:00" as minutes after midnight, 0 to 1439.
absl::StatusOr<uint32_t> ParseMinuteOfDay(absl::string_view text);

// "Mon,Tue", "monday", "Mon-Fri"; in the order of the week, without duplicates, at least one.
absl::StatusOr<std::vector<absl::Weekday>> ParseWeekdays(absl::string_view text);

// Loads an IANA zone; kInvalidArgument if this machine does not know it.
absl::StatusOr<absl::TimeZone> ParseZone(absl::string_view name);

// "2026-12-01 22:00:00 CET"; "-" for an infinite time.
std::string LocalTimeText(absl::Time time, absl::TimeZone zone);
// Age for tables, "-" for InfinitePast.
std::string AgeText(absl::Time time, absl::Time now);

}  // namespace weft::cli
