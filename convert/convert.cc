#include "convert/convert.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace weft {
namespace {

constexpr char kNcclKind[] = "nccl";
constexpr char kGpuCopyKind[] = "gpu_copy";

// The overloads below must not hide those of the header.
using weft::FromProto;
using weft::ToProto;

// Enum values of the plain types are the numbers of the contract.
template <typename Enum, typename ProtoEnum>
absl::StatusOr<Enum> EnumFromProto(ProtoEnum value, Enum first, Enum last, absl::string_view what) {
  const int number = static_cast<int>(value);
  if (number < static_cast<int>(first) || number > static_cast<int>(last)) {
    return absl::InvalidArgumentError(absl::StrCat("unknown ", what, " ", number));
  }
  return static_cast<Enum>(number);
}

void ToProto(const Distribution& distribution, v1::Distribution* out) {
  out->set_min(distribution.min);
  out->set_p10(distribution.p10);
  out->set_p50(distribution.p50);
  out->set_p90(distribution.p90);
  out->set_p99(distribution.p99);
  out->set_max(distribution.max);
  out->set_count(distribution.count);
}

Distribution FromProto(const v1::Distribution& in) {
  return {in.min(), in.p10(), in.p50(), in.p90(), in.p99(), in.max(), in.count()};
}

void ToProto(const FabricProbe& probe, v1::FabricProbe* out) {
  out->set_provider(probe.provider);
  out->set_domain(probe.domain);
  for (const uint64_t size : probe.message_size_bytes) out->add_message_size_bytes(size);
  out->set_window(probe.window);
  out->set_bytes_per_size(probe.bytes_per_size);
  out->set_latency_iterations(probe.latency_iterations);
  out->set_skip_latency(probe.skip_latency);
  out->set_skip_bandwidth(probe.skip_bandwidth);
  out->set_gpu_memory(probe.gpu_memory);
}

FabricProbe FromProto(const v1::FabricProbe& in) {
  FabricProbe probe;
  probe.provider = in.provider();
  probe.domain = in.domain();
  probe.message_size_bytes.assign(in.message_size_bytes().begin(), in.message_size_bytes().end());
  probe.window = in.window();
  probe.bytes_per_size = in.bytes_per_size();
  probe.latency_iterations = in.latency_iterations();
  probe.skip_latency = in.skip_latency();
  probe.skip_bandwidth = in.skip_bandwidth();
  probe.gpu_memory = in.gpu_memory();
  return probe;
}

void ToProto(const Evidence& evidence, v1::Evidence* out) {
  out->set_run_id(evidence.run_id);
  ToProto(evidence.time, out->mutable_time());
  out->set_partner_node_id(evidence.partner_node_id);
  out->set_observed(evidence.observed);
  out->set_expected(evidence.expected);
  out->set_metric(static_cast<v1::Metric>(evidence.metric));
}

v1::Weekday ToProto(absl::Weekday day) { return static_cast<v1::Weekday>(static_cast<int>(day) + 1); }

absl::StatusOr<Weekly> WeeklyFromProto(const v1::Weekly& in) {
  Weekly weekly;
  for (const int day : in.weekdays()) {
    if (day < v1::WEEKDAY_MONDAY || day > v1::WEEKDAY_SUNDAY) {
      return absl::InvalidArgumentError(absl::StrCat("unknown weekday ", day));
    }
    weekly.weekdays.push_back(static_cast<absl::Weekday>(day - 1));
  }
  weekly.start_minute = in.start_minute();
  weekly.duration = FromProto(in.duration());
  weekly.time_zone = in.time_zone();
  weekly.until = FromProto(in.until_time());
  return weekly;
}

}  // namespace

void ToProto(absl::Time time, google::protobuf::Timestamp* out) {
  // Limits of the message: 0001-01-01T00:00:00Z and 9999-12-31T23:59:59.999999999Z.
  static const absl::Time kFirst = absl::FromUnixSeconds(-62135596800);
  static const absl::Time kLast = absl::FromUnixSeconds(253402300799);
  time = std::clamp(time, kFirst, kLast);
  const int64_t seconds = absl::ToUnixSeconds(time);
  out->set_seconds(seconds);
  out->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
}

void ToProto(absl::Duration duration, google::protobuf::Duration* out) {
  static constexpr absl::Duration kLimit = absl::Seconds(315576000000);
  duration = std::clamp(duration, -kLimit, kLimit);
  absl::Duration rest;
  out->set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &rest));
  out->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
}

absl::Time FromProto(const google::protobuf::Timestamp& timestamp) {
  return absl::FromUnixSeconds(timestamp.seconds()) + absl::Nanoseconds(timestamp.nanos());
}

absl::Duration FromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

void ToProto(const Node& node, v1::Node* out) {
  out->set_node_id(node.id);
  out->set_hostname(node.hostname);
  out->mutable_labels()->insert(node.labels.begin(), node.labels.end());
  for (const Nic& nic : node.nics) {
    v1::Nic* to = out->add_nics();
    to->set_name(nic.name);
    to->set_driver(nic.driver);
    to->set_rate_bytes_per_second(nic.rate_bytes_per_second);
    to->set_link_layer(nic.link_layer);
    to->set_state(nic.state);
    to->set_pci_address(nic.pci_address);
  }
  for (const Gpu& gpu : node.gpus) {
    v1::Gpu* to = out->add_gpus();
    to->set_pci_address(gpu.pci_address);
    to->set_uuid(gpu.uuid);
    to->set_model(gpu.model);
    if (!gpu.facts.empty()) to->mutable_facts()->ParseFromString(gpu.facts);
  }
  out->mutable_versions()->insert(node.versions.begin(), node.versions.end());
  if (node.gpu_source == GpuSource()) return;
  if (node.gpu_source.read_time != absl::InfinitePast())
    ToProto(node.gpu_source.read_time, out->mutable_gpu_source()->mutable_read_time());
  out->mutable_gpu_source()->set_problem(node.gpu_source.problem);
}

Node FromProto(const v1::Node& in) {
  Node node;
  node.id = in.node_id();
  node.hostname = in.hostname();
  node.labels.insert(in.labels().begin(), in.labels().end());
  for (const v1::Nic& nic : in.nics()) {
    node.nics.push_back({nic.name(), nic.driver(), nic.rate_bytes_per_second(), nic.link_layer(), nic.state(),
                         nic.pci_address()});
  }
  for (const v1::Gpu& gpu : in.gpus()) {
    node.gpus.push_back({gpu.pci_address(), gpu.uuid(), gpu.model(),
                         gpu.has_facts() ? gpu.facts().SerializeAsString() : std::string()});
  }
  node.versions.insert(in.versions().begin(), in.versions().end());
  if (in.gpu_source().has_read_time()) node.gpu_source.read_time = FromProto(in.gpu_source().read_time());
  node.gpu_source.problem = in.gpu_source().problem();
  return node;
}

void ToProto(const GpuProbe& probe, v1::ProbeSpec* out) {
  if (probe.kind == kNcclKind) out->mutable_nccl()->ParseFromString(probe.parameters);
  if (probe.kind == kGpuCopyKind) out->mutable_gpu_copy()->ParseFromString(probe.parameters);
}

void ToProto(const ProbeSpec& spec, v1::ProbeSpec* out) {
  out->set_name(spec.name);
  if (const auto* fabric = std::get_if<FabricProbe>(&spec.kind)) ToProto(*fabric, out->mutable_fabric());
  if (const auto* gpu = std::get_if<GpuProbe>(&spec.kind)) ToProto(*gpu, out);
}

absl::StatusOr<ProbeSpec> FromProto(const v1::ProbeSpec& in) {
  switch (in.kind_case()) {
    case v1::ProbeSpec::kFabric:
      return ProbeSpec{in.name(), FromProto(in.fabric())};
    case v1::ProbeSpec::kNccl:
      return ProbeSpec{in.name(), GpuProbe{kNcclKind, in.nccl().SerializeAsString()}};
    case v1::ProbeSpec::kGpuCopy:
      return ProbeSpec{in.name(), GpuProbe{kGpuCopyKind, in.gpu_copy().SerializeAsString()}};
    case v1::ProbeSpec::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat("probe \"", in.name(), "\" has no kind that is known here"));
}

void ToProto(const RankSpread& spread, v1::RankSpread* out) {
  out->set_count(spread.count);
  out->set_min_seconds(spread.min_seconds);
  out->set_mean_seconds(spread.mean_seconds);
  out->set_max_seconds(spread.max_seconds);
  out->set_slowest_rank(spread.slowest_rank);
  out->set_slowest_participant(spread.slowest_participant);
}

RankSpread FromProto(const v1::RankSpread& in) {
  return {in.count(),       in.min_seconds(),  in.mean_seconds(),
          in.max_seconds(), in.slowest_rank(), in.slowest_participant()};
}

void ToProto(const Measurement& measurement, v1::Measurement* out) {
  out->set_metric(static_cast<v1::Metric>(measurement.metric));
  out->set_value(measurement.value);
  out->set_device(measurement.device);
  out->set_message_size_bytes(measurement.message_size_bytes);
  out->set_moved_bytes(measurement.moved_bytes);
  out->set_elapsed_seconds(measurement.elapsed_seconds);
  ToProto(measurement.distribution, out->mutable_distribution());
  out->set_in_place(measurement.in_place);
  out->set_iterations(measurement.iterations);
  out->mutable_own_rank_seconds()->Add(measurement.own_rank_seconds.begin(),
                                       measurement.own_rank_seconds.end());
  if (measurement.ranks) ToProto(*measurement.ranks, out->mutable_ranks());
}

absl::StatusOr<Measurement> FromProto(const v1::Measurement& in) {
  const auto metric = EnumFromProto(in.metric(), Metric::kWriteBandwidth, Metric::kCopyBandwidth, "metric");
  if (!metric.ok()) return metric.status();
  Measurement measurement;
  measurement.metric = *metric;
  measurement.value = in.value();
  measurement.device = in.device();
  measurement.message_size_bytes = in.message_size_bytes();
  measurement.moved_bytes = in.moved_bytes();
  measurement.elapsed_seconds = in.elapsed_seconds();
  measurement.distribution = FromProto(in.distribution());
  measurement.in_place = in.in_place();
  measurement.iterations = in.iterations();
  measurement.own_rank_seconds.assign(in.own_rank_seconds().begin(), in.own_rank_seconds().end());
  if (in.has_ranks()) measurement.ranks = FromProto(in.ranks());
  return measurement;
}

void ToProto(const TransportProof& proof, v1::TransportProof* out) {
  out->set_verdict(static_cast<v1::TransportVerdict>(proof.verdict));
  for (const TransportFinding& finding : proof.findings) {
    v1::TransportFinding* to = out->add_findings();
    to->set_verdict(static_cast<v1::TransportVerdict>(finding.verdict));
    to->set_detail(finding.detail);
    for (const std::string& line : finding.evidence) to->add_evidence(line);
  }
  out->set_network(proof.network);
  out->set_nccl_version(proof.nccl_version);
  out->set_plugin(proof.plugin);
  for (const TransportUse& use : proof.uses) {
    v1::TransportUse* to = out->add_uses();
    to->set_transport(use.transport);
    to->set_device(use.device);
    to->set_gdr(use.gdr);
    to->set_connections(use.connections);
  }
  for (const NicTraffic& traffic : proof.traffic) {
    v1::NicTraffic* to = out->add_traffic();
    to->set_nic(traffic.nic);
    to->set_rdma(traffic.rdma);
    to->set_sent_bytes(traffic.sent_bytes);
    to->set_received_bytes(traffic.received_bytes);
    to->set_counter_reset(traffic.counter_reset);
  }
  if (proof.nvls) out->set_nvls(*proof.nvls);
  out->set_unknown_lines(proof.unknown_lines);
}

absl::StatusOr<TransportProof> FromProto(const v1::TransportProof& in) {
  const auto verdict_of = [](v1::TransportVerdict verdict) {
    return EnumFromProto(verdict, TransportVerdict::kOk, TransportVerdict::kNoEvidence, "transport verdict");
  };
  TransportProof proof;
  const absl::StatusOr<TransportVerdict> verdict = verdict_of(in.verdict());
  if (!verdict.ok()) return verdict.status();
  proof.verdict = *verdict;
  for (const v1::TransportFinding& finding : in.findings()) {
    const absl::StatusOr<TransportVerdict> one = verdict_of(finding.verdict());
    if (!one.ok()) return one.status();
    proof.findings.push_back(
        {*one, finding.detail(), {finding.evidence().begin(), finding.evidence().end()}});
  }
  proof.network = in.network();
  proof.nccl_version = in.nccl_version();
  proof.plugin = in.plugin();
  for (const v1::TransportUse& use : in.uses())
    proof.uses.push_back({use.transport(), use.device(), use.gdr(), use.connections()});
  for (const v1::NicTraffic& traffic : in.traffic()) {
    proof.traffic.push_back({traffic.nic(), traffic.rdma(), traffic.sent_bytes(), traffic.received_bytes(),
                             traffic.counter_reset()});
  }
  if (in.has_nvls()) proof.nvls = in.nvls();
  proof.unknown_lines = in.unknown_lines();
  return proof;
}

void ToProto(const Result& result, v1::Result* out) {
  out->set_run_id(result.run_id);
  out->set_node_id(result.node_id);
  out->set_rank(result.rank);
  out->set_outcome(static_cast<v1::Outcome>(result.outcome));
  out->set_detail(result.detail);
  out->set_phase(result.phase);
  for (const uint32_t rank : result.missing_ranks) out->add_missing_ranks(rank);
  for (const Measurement& measurement : result.measurements) ToProto(measurement, out->add_measurements());
  out->set_provider(result.provider);
  ToProto(result.start_time, out->mutable_start_time());
  ToProto(result.elapsed, out->mutable_elapsed());
  out->set_stack_fingerprint(result.stack_fingerprint);
  out->set_emulated_link(result.emulated_link);
  out->set_tool_output(result.tool_output);
  if (!result.nccl.empty()) out->mutable_nccl()->ParseFromString(result.nccl);
  if (result.transport) ToProto(*result.transport, out->mutable_transport());
  if (result.yield_latency > absl::ZeroDuration())
    ToProto(result.yield_latency, out->mutable_yield_latency());
}

absl::StatusOr<Result> FromProto(const v1::Result& in) {
  const auto outcome = EnumFromProto(in.outcome(), Outcome::kOk, Outcome::kYielded, "outcome");
  if (!outcome.ok()) return outcome.status();
  Result result;
  result.run_id = in.run_id();
  result.node_id = in.node_id();
  result.rank = in.rank();
  result.outcome = *outcome;
  result.detail = in.detail();
  result.phase = in.phase();
  result.missing_ranks.assign(in.missing_ranks().begin(), in.missing_ranks().end());
  for (const v1::Measurement& measurement : in.measurements()) {
    absl::StatusOr<Measurement> converted = FromProto(measurement);
    if (!converted.ok()) return converted.status();
    result.measurements.push_back(*std::move(converted));
  }
  result.provider = in.provider();
  result.start_time = FromProto(in.start_time());
  result.elapsed = FromProto(in.elapsed());
  result.stack_fingerprint = in.stack_fingerprint();
  result.emulated_link = in.emulated_link();
  result.tool_output = in.tool_output();
  if (in.has_transport()) {
    absl::StatusOr<TransportProof> proof = FromProto(in.transport());
    if (!proof.ok()) return proof.status();
    result.transport = *std::move(proof);
  }
  result.yield_latency = FromProto(in.yield_latency());
  if (in.has_nccl()) result.nccl = in.nccl().SerializeAsString();
  return result;
}

void ToProto(const Run& run, v1::Run* out) {
  out->set_run_id(run.id);
  ToProto(run.spec, out->mutable_spec());
  for (size_t rank = 0; rank < run.participants.size(); ++rank) {
    v1::RunParticipant* participant = out->add_participants();
    participant->set_rank(static_cast<uint32_t>(rank));
    participant->set_node_id(run.participants[rank]);
  }
  ToProto(run.plan_time, out->mutable_plan_time());
  if (run.end_time != absl::InfiniteFuture()) ToProto(run.end_time, out->mutable_end_time());
  out->set_state(static_cast<v1::RunState>(run.state));
  out->set_round(run.round);
  out->set_detail(run.detail);
}

void ToProto(const Episode& episode, v1::Finding* out) {
  const Finding& finding = episode.finding;
  out->set_finding_id(episode.id);
  out->set_kind(static_cast<v1::FindingKind>(finding.kind));
  out->set_scope(static_cast<v1::FindingScope>(finding.scope));
  for (const std::string& id : finding.node_ids) out->add_node_ids(id);
  out->set_part(finding.part);
  out->set_probe(finding.probe);
  out->set_severity(static_cast<v1::Severity>(finding.severity));
  out->set_ratio(finding.ratio);
  out->set_observed(finding.observed);
  out->set_expected(finding.expected);
  out->set_confidence(finding.confidence);
  ToProto(finding.since, out->mutable_since_time());
  ToProto(episode.open_time, out->mutable_open_time());
  if (!episode.is_open()) ToProto(episode.resolve_time, out->mutable_resolve_time());
  for (const std::string& id : episode.muted_by) out->add_muted_by(id);
  out->set_summary(finding.summary);
  for (const Evidence& evidence : finding.evidence) ToProto(evidence, out->add_evidence());
}

void ToProto(const Delivery& delivery, v1::Delivery* out) {
  out->set_delivery_id(delivery.id);
  out->set_receiver(delivery.receiver);
  out->set_finding_id(delivery.episode_id);
  out->set_action(static_cast<v1::DeliveryAction>(delivery.action));
  out->set_sequence(delivery.sequence);
  out->set_state(static_cast<v1::DeliveryState>(delivery.state));
  out->set_attempts(delivery.attempts);
  if (delivery.not_before != absl::InfinitePast())
    ToProto(delivery.not_before, out->mutable_not_before_time());
  ToProto(delivery.create_time, out->mutable_create_time());
  if (delivery.deliver_time != absl::InfiniteFuture())
    ToProto(delivery.deliver_time, out->mutable_deliver_time());
  out->set_last_status(delivery.last_status);
  out->set_last_error(delivery.last_error);
}

void ToProto(const MaintenanceWindow& window, v1::MaintenanceWindow* out) {
  out->set_window_id(window.id);
  for (const Matcher& matcher : window.matchers) {
    v1::Matcher* to = out->add_matchers();
    to->set_label(matcher.label);
    to->set_operator_(static_cast<v1::MatchOperator>(matcher.op));
    for (const std::string& value : matcher.values) to->add_values(value);
  }
  if (const auto* once = std::get_if<OneOff>(&window.schedule)) {
    ToProto(once->start, out->mutable_one_off()->mutable_start_time());
    ToProto(once->end, out->mutable_one_off()->mutable_end_time());
  } else if (const auto* weekly = std::get_if<Weekly>(&window.schedule)) {
    for (const absl::Weekday day : weekly->weekdays) out->mutable_weekly()->add_weekdays(ToProto(day));
    out->mutable_weekly()->set_start_minute(weekly->start_minute);
    ToProto(weekly->duration, out->mutable_weekly()->mutable_duration());
    out->mutable_weekly()->set_time_zone(weekly->time_zone);
    ToProto(weekly->until, out->mutable_weekly()->mutable_until_time());
  }
  out->set_reason(window.reason);
  out->set_created_by(window.created_by);
  ToProto(window.create_time, out->mutable_create_time());
  if (window.ended_time != absl::InfiniteFuture()) ToProto(window.ended_time, out->mutable_ended_time());
  out->set_ended_by(window.ended_by);
  out->set_revision(window.revision);
}

absl::StatusOr<MaintenanceWindow> FromProto(const v1::MaintenanceWindow& in) {
  MaintenanceWindow window;
  window.id = in.window_id();
  for (const v1::Matcher& matcher : in.matchers()) {
    const auto op =
        EnumFromProto(matcher.operator_(), MatchOperator::kIn, MatchOperator::kNotGlob, "match operator");
    if (!op.ok()) return op.status();
    window.matchers.push_back({matcher.label(), *op, {matcher.values().begin(), matcher.values().end()}});
  }
  if (in.has_one_off()) {
    window.schedule = OneOff{FromProto(in.one_off().start_time()), FromProto(in.one_off().end_time())};
  } else if (in.has_weekly()) {
    absl::StatusOr<Weekly> weekly = WeeklyFromProto(in.weekly());
    if (!weekly.ok()) return weekly.status();
    window.schedule = *std::move(weekly);
  } else {
    return absl::InvalidArgumentError("a maintenance window needs a schedule: one_off or weekly");
  }
  window.reason = in.reason();
  window.created_by = in.created_by();
  if (in.has_create_time()) window.create_time = FromProto(in.create_time());
  if (in.has_ended_time()) window.ended_time = FromProto(in.ended_time());
  window.ended_by = in.ended_by();
  window.revision = in.revision();
  return window;
}

}  // namespace weft
