#include "cli/time_text.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text.h"
#include "base/units.h"

namespace weft::cli {
namespace {

constexpr absl::Duration kLongest = absl::Hours(24 * 366);
constexpr std::array<const char*, 7> kDayNames = {"monday", "tuesday",  "wednesday", "thursday",
                                                  "friday", "saturday", "sunday"};
constexpr std::array<absl::Weekday, 7> kDays = {
    absl::Weekday::monday, absl::Weekday::tuesday,  absl::Weekday::wednesday, absl::Weekday::thursday,
    absl::Weekday::friday, absl::Weekday::saturday, absl::Weekday::sunday};

absl::Status Bad(absl::string_view what, absl::string_view text, absl::string_view how) {
  return absl::InvalidArgumentError(
      absl::StrCat("cannot read \"", EscapeControl(text), "\" as ", what, "; write ", how));
}

absl::StatusOr<absl::Time> FromCivil(absl::CivilSecond civil, absl::TimeZone zone, absl::string_view text) {
  const absl::TimeZone::TimeInfo info = zone.At(civil);
  if (info.kind != absl::TimeZone::TimeInfo::SKIPPED) return info.pre;
  return absl::InvalidArgumentError(
      absl::StrCat("\"", EscapeControl(text), "\" does not exist in ", zone.name(), ": the clock skips it"));
}

absl::StatusOr<absl::Time> NextTimeOfDay(uint32_t minute, absl::Time now, absl::TimeZone zone,
                                         absl::string_view text) {
  const absl::CivilDay today = absl::ToCivilDay(now, zone);
  for (const absl::CivilDay day : {today, today + 1}) {
    const absl::CivilSecond civil = absl::CivilSecond(day) + static_cast<absl::civil_diff_t>(minute) * 60;
    auto time = FromCivil(civil, zone, text);
    if (!time.ok() || *time >= now) return time;
  }
  return FromCivil(absl::CivilSecond(today + 1), zone, text);
}

// Civil "2026-12-01 22:00:00", also with a T, without seconds, or the day alone.
bool ParseCivil(absl::string_view text, absl::CivilSecond* out) {
  std::string padded(text);
  std::replace(padded.begin(), padded.end(), ' ', 'T');
  absl::CivilMinute minute;
  absl::CivilDay day;
  if (absl::ParseCivilTime(padded, out)) return true;
  if (absl::ParseCivilTime(padded, &minute)) {
    *out = absl::CivilSecond(minute);
    return true;
  }
  if (!absl::ParseCivilTime(padded, &day)) return false;
  *out = absl::CivilSecond(day);
  return true;
}

// The units that absl does not read; an empty result for text that is not "<number><unit>".
absl::StatusOr<absl::Duration> ParseDays(absl::string_view text, int64_t hours_per_unit) {
  int64_t count = 0;
  if (!absl::SimpleAtoi(text, &count) || count < 0 || count > 366) return absl::InvalidArgumentError("");
  return absl::Hours(count * hours_per_unit);
}

// Index of the day that `text` begins with at least three letters of, or -1.
int DayIndex(absl::string_view text) {
  const std::string lower = absl::AsciiStrToLower(absl::StripAsciiWhitespace(text));
  for (size_t i = 0; i < kDayNames.size(); ++i) {
    if (lower.size() >= 3 && absl::StartsWith(kDayNames[i], lower)) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

absl::TimeZone LocalZone() { return absl::LocalTimeZone(); }

absl::StatusOr<absl::Time> ParseTime(absl::string_view text, absl::Time now, absl::TimeZone zone) {
  if (text == "now") return now;
  absl::Time time;
  absl::CivilSecond civil;
  std::string error;
  const bool full = absl::ParseTime(absl::RFC3339_full, text, &time, &error);
  if (full && time > absl::InfinitePast() && time < absl::InfiniteFuture()) return time;
  if (ParseCivil(text, &civil)) return FromCivil(civil, zone, text);
  if (const auto minute = ParseMinuteOfDay(text); minute.ok()) {
    return NextTimeOfDay(*minute, now, zone, text);
  }
  return Bad("a time", text,
             "\"2026-12-01 22:00\", \"22:00\", \"now\" or RFC 3339 (2026-12-01T22:00:00+01:00)");
}

absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text) {
  absl::Duration duration;
  absl::StatusOr<absl::Duration> days = absl::InvalidArgumentError("");
  if (absl::EndsWith(text, "d")) days = ParseDays(text.substr(0, text.size() - 1), 24);
  if (absl::EndsWith(text, "w")) days = ParseDays(text.substr(0, text.size() - 1), 24 * 7);
  if (days.ok()) {
    duration = *days;
  } else if (!absl::ParseDuration(text, &duration)) {
    return Bad("a duration", text, "30m, 1h30m, 2d or 1w");
  }
  if (duration > absl::ZeroDuration() && duration <= kLongest) return duration;
  return Bad("a duration", text, "one above 0 and at most 366d");
}

absl::StatusOr<absl::Time> ParseSince(absl::string_view text, absl::Time now, absl::TimeZone zone) {
  if (const auto ago = ParseDuration(text); ago.ok()) return now - *ago;
  if (const auto time = ParseTime(text, now, zone); time.ok()) return time;
  return Bad("a time in the past", text, "6h, 2d, \"2026-12-01 22:00\" or RFC 3339");
}

absl::StatusOr<uint32_t> ParseMinuteOfDay(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  uint32_t hour = 0, minute = 0;
  const bool shaped = parts.size() == 2 && parts[0].size() <= 2 && parts[1].size() == 2;
  if (!shaped || !absl::SimpleAtoi(parts[0], &hour) || !absl::SimpleAtoi(parts[1], &minute) || hour > 23 ||
      minute > 59) {
    return Bad("a time of day", text, "hours and minutes such as 22:00");
  }
  return hour * 60 + minute;
}

absl::StatusOr<std::vector<absl::Weekday>> ParseWeekdays(absl::string_view text) {
  std::array<bool, 7> chosen{};
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(part, absl::MaxSplits('-', 1));
    const int first = DayIndex(ends.first);
    const int last = absl::StrContains(part, "-") ? DayIndex(ends.second) : first;
    if (first < 0 || last < 0) return Bad("days of the week", part, "Mon,Tue or Mon-Fri");
    for (int i = first;; i = (i + 1) % 7) {
      chosen[static_cast<size_t>(i)] = true;
      if (i == last) break;
    }
  }
  std::vector<absl::Weekday> days;
  for (size_t i = 0; i < kDays.size(); ++i) {
    if (chosen[i]) days.push_back(kDays[i]);
  }
  return days;
}

absl::StatusOr<absl::TimeZone> ParseZone(absl::string_view name) {
  absl::TimeZone zone;
  if (!name.empty() && absl::LoadTimeZone(name, &zone)) return zone;
  return Bad("a time zone", name, "an IANA name such as Europe/Berlin");
}

std::string LocalTimeText(absl::Time time, absl::TimeZone zone) {
  if (time == absl::InfinitePast() || time == absl::InfiniteFuture()) return "-";
  return absl::FormatTime("%Y-%m-%d %H:%M:%S %Z", time, zone);
}

std::string AgeText(absl::Time time, absl::Time now) {
  return time == absl::InfinitePast() ? "-" : FormatAge(now - time);
}

}  // namespace weft::cli
