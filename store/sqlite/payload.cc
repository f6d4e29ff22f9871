#include "store/sqlite/payload.h"

#include <cmath>
#include <initializer_list>
#include <utility>

#include "absl/strings/str_cat.h"
#include "convert/convert.h"

namespace weft::sqlite {
namespace {

bool Finite(std::initializer_list<double> numbers) {
  for (const double number : numbers) {
    if (!std::isfinite(number)) return false;
  }
  return true;
}

bool Finite(const Measurement& m) {
  const Distribution& d = m.distribution;
  return Finite({m.value, m.elapsed_seconds, d.min, d.p10, d.p50, d.p90, d.p99, d.max});
}

bool Finite(const Finding& finding) {
  for (const Evidence& evidence : finding.evidence) {
    if (!Finite({evidence.observed, evidence.expected})) return false;
  }
  return Finite({finding.ratio, finding.observed, finding.expected, finding.confidence});
}

absl::Status NotFinite(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(what, " holds a number that is NaN or infinite"));
}

// What comes back from a message; StatusOr where the message can hold what the value cannot.
absl::Status Assign(Node from, Node* to) {
  *to = std::move(from);
  return absl::OkStatus();
}

template <typename T>
absl::Status Assign(absl::StatusOr<T> from, T* to) {
  if (!from.ok()) return from.status();
  *to = *std::move(from);
  return absl::OkStatus();
}

Finding FindingFrom(const v1::Finding& in) {
  Finding finding;
  finding.kind = static_cast<FindingKind>(in.kind());
  finding.scope = static_cast<FindingScope>(in.scope());
  finding.node_ids.assign(in.node_ids().begin(), in.node_ids().end());
  finding.part = in.part();
  finding.probe = in.probe();
  finding.severity = static_cast<Severity>(in.severity());
  finding.ratio = in.ratio();
  finding.observed = in.observed();
  finding.expected = in.expected();
  finding.confidence = in.confidence();
  finding.summary = in.summary();
  for (const v1::Evidence& evidence : in.evidence()) {
    finding.evidence.push_back({evidence.run_id(), FromProto(evidence.time()), evidence.partner_node_id(),
                                evidence.observed(), evidence.expected(),
                                static_cast<Metric>(evidence.metric())});
  }
  return finding;
}

template <typename Message, typename T>
absl::Status Parse(absl::string_view bytes, T* value) {
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::DataLossError(absl::StrCat("stored ", Message::descriptor()->name(), " cannot be read"));
  }
  const absl::Status status = Assign(FromProto(message), value);
  if (!status.ok()) return absl::DataLossError(absl::StrCat("stored ", status.message()));
  return absl::OkStatus();
}

// Reading back at once keeps bytes that cannot be read out of the database: they would fail every later read.
template <typename T, typename Message>
absl::StatusOr<std::string> Serialise(const Message& message) {
  std::string bytes = message.SerializeAsString();
  T back;
  if (const absl::Status status = Decode(bytes, &back); !status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Message::descriptor()->name(),
                     " cannot be stored: text is not UTF-8, or a field is out of "
                     "range: ",
                     status.message()));
  }
  return bytes;
}

}  // namespace

absl::StatusOr<std::string> Encode(const Node& node) {
  v1::Node message;
  ToProto(node, &message);
  return Serialise<Node>(message);
}

absl::StatusOr<std::string> Encode(const ProbeSpec& spec) {
  v1::ProbeSpec message;
  ToProto(spec, &message);
  return Serialise<ProbeSpec>(message);
}

absl::StatusOr<std::string> Encode(const Result& result) {
  for (const Measurement& measurement : result.measurements) {
    if (!Finite(measurement)) return NotFinite(absl::StrCat("the result of run ", result.run_id));
  }
  v1::Result message;
  ToProto(result, &message);
  message.clear_run_id();
  message.clear_node_id();
  if (result.start_time == absl::InfinitePast()) message.clear_start_time();
  return Serialise<Result>(message);
}

absl::StatusOr<std::string> Encode(const Episode& episode) {
  if (!Finite(episode.finding)) return NotFinite(absl::StrCat("episode ", episode.id));
  v1::Finding message;
  ToProto(episode, &message);
  message.clear_finding_id();
  message.clear_since_time();
  message.clear_open_time();
  message.clear_resolve_time();
  return Serialise<Episode>(message);
}

absl::StatusOr<std::string> Encode(const MaintenanceWindow& window) {
  v1::MaintenanceWindow message;
  ToProto(window, &message);
  if (window.create_time == absl::InfinitePast()) message.clear_create_time();
  return Serialise<MaintenanceWindow>(message);
}

absl::Status Decode(absl::string_view bytes, Node* node) { return Parse<v1::Node>(bytes, node); }

absl::Status Decode(absl::string_view bytes, ProbeSpec* spec) { return Parse<v1::ProbeSpec>(bytes, spec); }

absl::Status Decode(absl::string_view bytes, Result* result) {
  v1::Result message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::DataLossError("stored Result cannot be read");
  }
  const absl::Status status = Assign(FromProto(message), result);
  if (!status.ok()) return absl::DataLossError(absl::StrCat("stored Result: ", status.message()));
  if (!message.has_start_time()) result->start_time = absl::InfinitePast();
  return absl::OkStatus();
}

absl::Status Decode(absl::string_view bytes, Episode* episode) {
  v1::Finding message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::DataLossError("stored Finding cannot be read");
  }
  episode->finding = FindingFrom(message);
  episode->muted_by.assign(message.muted_by().begin(), message.muted_by().end());
  return absl::OkStatus();
}

absl::Status Decode(absl::string_view bytes, MaintenanceWindow* window) {
  return Parse<v1::MaintenanceWindow>(bytes, window);
}

}  // namespace weft::sqlite
