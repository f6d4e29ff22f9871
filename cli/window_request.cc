#include "cli/window_request.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/text.h"
#include "cli/hostlist.h"
#include "cli/time_text.h"

namespace weft::cli {
namespace {

absl::Status Bad(absl::string_view what) { return absl::InvalidArgumentError(what); }

// The same error with the flag in front.
absl::Status InFlag(absl::string_view flag, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(flag, ": ", status.message()));
}

v1::MatchOperator OperatorFor(bool negated, bool glob) {
  if (glob) return negated ? v1::MATCH_OPERATOR_NOT_GLOB : v1::MATCH_OPERATOR_GLOB;
  return negated ? v1::MATCH_OPERATOR_NOT_IN : v1::MATCH_OPERATOR_IN;
}

// Values with a glob among them are all taken as globs: a plain name is a glob of itself.
absl::Status AddMatcher(absl::string_view label, bool negated, absl::string_view list,
                        v1::MaintenanceWindow* out) {
  const auto values = ExpandHostlist(list);
  if (!values.ok()) return values.status();
  v1::Matcher& matcher = *out->add_matchers();
  matcher.set_label(std::string(label));
  bool glob = false;
  for (const std::string& value : *values) {
    glob = glob || IsGlob(value);
    matcher.add_values(value);
  }
  matcher.set_operator_(OperatorFor(negated, glob));
  return absl::OkStatus();
}

absl::Status AddMatch(absl::string_view text, v1::MaintenanceWindow* out) {
  const size_t equals = text.find('=');
  if (equals == absl::string_view::npos || equals == 0) {
    return Bad(absl::StrCat("--match \"", EscapeControl(text), "\": write label=value1,value2"));
  }
  absl::string_view label = text.substr(0, equals);
  const bool negated = absl::ConsumeSuffix(&label, "!");
  const absl::Status status = AddMatcher(label, negated, text.substr(equals + 1), out);
  return status.ok() ? status : InFlag("--match", status);
}

absl::Status AddMatchers(const WindowFlags& flags, v1::MaintenanceWindow* out) {
  if (flags.nodes.empty() && flags.matches.empty()) {
    return Bad("say whom: --nodes gpu[001-004] or --match rack=r12");
  }
  if (!flags.nodes.empty()) {
    if (absl::Status status = AddMatcher("node", false, flags.nodes, out); !status.ok()) {
      return InFlag("--nodes", status);
    }
  }
  for (const std::string& match : flags.matches) {
    if (absl::Status status = AddMatch(match, out); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void SetTime(absl::Time time, google::protobuf::Timestamp* out) {
  out->set_seconds(absl::ToUnixSeconds(time));
  out->set_nanos(static_cast<int32_t>((time - absl::FromUnixSeconds(out->seconds())) / absl::Nanoseconds(1)));
}

absl::StatusOr<absl::Time> EndOf(const WindowFlags& flags, absl::Time start, absl::TimeZone zone) {
  if (flags.end.empty() == flags.length.empty()) return Bad("say until when: --for 2h or --end TIME");
  if (!flags.end.empty()) {
    const auto end = ParseTime(flags.end, start, zone);
    return end.ok() ? end : InFlag("--end", end.status());
  }
  const auto length = ParseDuration(flags.length);
  if (!length.ok()) return InFlag("--for", length.status());
  return start + *length;
}

absl::Status SetOneOff(const WindowFlags& flags, absl::Time now, absl::TimeZone zone, v1::OneOff* out) {
  if (!flags.at.empty() || !flags.until.empty()) return Bad("--at and --until belong to --weekly");
  const auto start = ParseTime(flags.start.empty() ? "now" : flags.start, now, zone);
  if (!start.ok()) return InFlag("--start", start.status());
  const auto end = EndOf(flags, *start, zone);
  if (!end.ok()) return end.status();
  if (*end <= *start) return Bad("--end is not after --start");
  SetTime(*start, out->mutable_start_time());
  SetTime(*end, out->mutable_end_time());
  return absl::OkStatus();
}

absl::Status CheckWeekly(const WindowFlags& flags) {
  if (!flags.start.empty() || !flags.end.empty()) return Bad("--start and --end do not go with --weekly");
  if (flags.at.empty()) return Bad("--weekly needs --at 22:00");
  if (flags.length.empty()) return Bad("--weekly needs --for 6h");
  if (flags.zone.empty()) return Bad("--weekly needs --tz, e.g. --tz Europe/Berlin");
  if (flags.until.empty()) return Bad("--weekly needs --until 2027-06-30, at most a year ahead");
  return absl::OkStatus();
}

v1::Weekday ToProto(absl::Weekday day) {
  return static_cast<v1::Weekday>(static_cast<int>(day) - static_cast<int>(absl::Weekday::monday) +
                                  v1::WEEKDAY_MONDAY);
}

absl::Status SetWeekly(const WindowFlags& flags, absl::Time now, absl::TimeZone zone, v1::Weekly* out) {
  if (absl::Status status = CheckWeekly(flags); !status.ok()) return status;
  const auto days = ParseWeekdays(flags.weekly);
  if (!days.ok()) return InFlag("--weekly", days.status());
  const auto minute = ParseMinuteOfDay(flags.at);
  if (!minute.ok()) return InFlag("--at", minute.status());
  const auto length = ParseDuration(flags.length);
  if (!length.ok()) return InFlag("--for", length.status());
  const auto until = ParseTime(flags.until, now, zone);
  if (!until.ok()) return InFlag("--until", until.status());
  for (const absl::Weekday day : *days) out->add_weekdays(ToProto(day));
  out->set_start_minute(*minute);
  out->mutable_duration()->set_seconds(absl::ToInt64Seconds(*length));
  out->set_time_zone(flags.zone);
  SetTime(*until, out->mutable_until_time());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::MaintenanceWindow> BuildWindow(const WindowFlags& flags, absl::Time now,
                                                  absl::TimeZone local) {
  v1::MaintenanceWindow window;
  if (absl::Status status = AddMatchers(flags, &window); !status.ok()) return status;
  absl::TimeZone zone = local;
  if (!flags.zone.empty()) {
    const auto named = ParseZone(flags.zone);
    if (!named.ok()) return InFlag("--tz", named.status());
    zone = *named;
  }
  const absl::Status status = flags.weekly.empty() ? SetOneOff(flags, now, zone, window.mutable_one_off())
                                                   : SetWeekly(flags, now, zone, window.mutable_weekly());
  if (!status.ok()) return status;
  if (flags.reason.empty()) return Bad("--reason must not be empty");
  if (flags.by.empty()) return Bad("say who: --by NAME (USER is not set)");
  window.set_reason(flags.reason);
  window.set_created_by(flags.by);
  return window;
}

}  // namespace weft::cli
