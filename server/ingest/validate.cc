#include "server/ingest/validate.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "convert/convert.h"

namespace weft {
namespace {

constexpr size_t kMaxText = 4096;
constexpr size_t kMaxToolOutput = 64 << 10;
constexpr size_t kMaxIdBytes = 64;
constexpr size_t kMaxLabels = 32;
constexpr size_t kMaxLabelValue = 128;
constexpr int kMaxParts = 512;  // NICs or GPUs of a node
constexpr size_t kMaxGpuFactsBytes = 64 << 10;
constexpr int kMaxTransportFindings = 64;
constexpr int kMaxTransportUses = 256;
constexpr int kMaxEvidence = 64;
constexpr int kMaxSettings = 128;
constexpr size_t kMaxNcclLog = 64 << 10;

bool HasControl(absl::string_view text) { return EscapeControl(text) != text; }

bool IsText(absl::string_view text, size_t max_bytes) {
  return text.size() <= max_bytes && !HasControl(text);
}

bool IsNumber(double value) { return std::isfinite(value) && value >= 0; }

bool NumbersAreSound(const v1::Measurement& m) {
  const v1::Distribution& d = m.distribution();
  const v1::RankSpread& r = m.ranks();
  for (const double value : {m.value(), m.elapsed_seconds(), d.min(), d.p10(), d.p50(), d.p90(), d.p99(),
                             d.max(), r.min_seconds(), r.mean_seconds(), r.max_seconds()}) {
    if (!IsNumber(value)) return false;
  }
  return std::all_of(m.own_rank_seconds().begin(), m.own_rank_seconds().end(), IsNumber);
}

bool IsSane(const v1::NcclReport& report) {
  if (report.log().size() > kMaxNcclLog || report.own_ranks_size() > kMaxParts ||
      report.settings_size() > kMaxSettings || report.limits_size() > kMaxSettings)
    return false;
  for (const std::string& text : {report.version(), report.cuda_version()})
    if (!IsText(text, kMaxIdBytes)) return false;
  if (!IsText(report.library_path(), kMaxText)) return false;
  for (const v1::NcclRank& rank : report.own_ranks())
    if (!IsText(rank.pci_address(), kMaxIdBytes) || !IsText(rank.model(), kMaxLabelValue)) return false;
  for (const v1::NcclSetting& setting : report.settings())
    for (const std::string& text : {setting.name(), setting.value(), setting.source()})
      if (!IsText(text, kMaxText)) return false;
  for (const std::string& limit : report.limits())
    if (!IsText(limit, kMaxText)) return false;
  return true;
}

bool IsId(absl::string_view id) {
  if (id.empty() || id.size() > kMaxIdBytes) return false;
  for (const char c : id) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_') return false;
  }
  return true;
}

bool IsLabelKey(absl::string_view key) {
  if (key.empty() || key.size() > kMaxIdBytes || !absl::ascii_islower(static_cast<unsigned char>(key[0])))
    return false;
  for (const char c : key) {
    const auto u = static_cast<unsigned char>(c);
    if (!absl::ascii_islower(u) && !absl::ascii_isdigit(u) && c != '_') return false;
  }
  return true;
}

bool IsSane(const v1::TransportProof& proof) {
  if (!IsText(proof.network(), kMaxLabelValue) || !IsText(proof.nccl_version(), kMaxLabelValue) ||
      !IsText(proof.plugin(), kMaxLabelValue) || proof.findings_size() > kMaxTransportFindings ||
      proof.uses_size() > kMaxTransportUses || proof.traffic_size() > kMaxParts)
    return false;
  for (const v1::TransportFinding& finding : proof.findings()) {
    if (!IsText(finding.detail(), kMaxText) || finding.evidence_size() > kMaxEvidence) return false;
    for (const std::string& line : finding.evidence())
      if (!IsText(line, kMaxText)) return false;
  }
  for (const v1::TransportUse& use : proof.uses())
    if (!IsText(use.transport(), kMaxLabelValue) || !IsText(use.device(), kMaxLabelValue)) return false;
  for (const v1::NicTraffic& traffic : proof.traffic())
    if (!IsText(traffic.nic(), kMaxLabelValue)) return false;
  return true;
}

// Empty when the texts and counts are in range.
std::string BadField(const v1::Result& result) {
  if (!IsId(result.run_id())) return "run_id";
  if (result.detail().size() > kMaxText || HasControl(result.detail())) return "detail";
  if (result.phase().size() > kMaxIdBytes || HasControl(result.phase())) return "phase";
  if (result.provider().size() > kMaxIdBytes || HasControl(result.provider())) return "provider";
  if (result.stack_fingerprint().size() > kMaxText || HasControl(result.stack_fingerprint())) {
    return "stack_fingerprint";
  }
  if (result.tool_output().size() > kMaxToolOutput) return "tool_output";
  if (!IsSane(result.transport())) return "transport";
  if (!IsSane(result.nccl())) return "nccl";
  if (result.yield_latency().seconds() < 0 || result.yield_latency().nanos() < 0) return "yield_latency";
  for (const v1::Measurement& m : result.measurements()) {
    if (m.device().size() > kMaxIdBytes || HasControl(m.device())) return "measurements.device";
  }
  return "";
}

void CheckTexts(const google::protobuf::Map<std::string, std::string>& map, absl::string_view name,
                std::vector<std::string>& problems) {
  if (map.size() > kMaxLabels) problems.push_back(absl::StrCat("more than ", kMaxLabels, " ", name));
  for (const auto& [key, value] : map) {
    if (!IsLabelKey(key))
      problems.push_back(absl::StrCat(name, " key \"", EscapeControl(key), "\" is not [a-z][a-z0-9_]*"));
    if (value.size() > kMaxLabelValue || HasControl(value)) {
      problems.push_back(
          absl::StrCat(name, " value of \"", EscapeControl(key), "\" is too long or has control characters"));
    }
  }
}

void CheckParts(const v1::Node& node, std::vector<std::string>& problems) {
  if (node.nics_size() > kMaxParts || node.gpus_size() > kMaxParts) {
    problems.push_back(absl::StrCat("more than ", kMaxParts, " NICs or GPUs"));
    return;
  }
  for (const v1::Nic& nic : node.nics()) {
    for (const std::string& text :
         {nic.name(), nic.driver(), nic.link_layer(), nic.state(), nic.pci_address()}) {
      if (text.size() > kMaxLabelValue || HasControl(text))
        problems.push_back("a NIC's text is too long or has control characters");
    }
  }
  for (const v1::Gpu& gpu : node.gpus()) {
    for (const std::string& text : {gpu.pci_address(), gpu.uuid(), gpu.model()}) {
      if (text.size() > kMaxLabelValue || HasControl(text))
        problems.push_back("a GPU's text is too long or has control characters");
    }
    if (gpu.facts().ByteSizeLong() > kMaxGpuFactsBytes)
      problems.push_back(absl::StrCat("the facts of a GPU exceed ", kMaxGpuFactsBytes, " bytes"));
    bool is_text = IsText(gpu.facts().fabric().cluster_uuid(), kMaxLabelValue);
    for (const v1::GpuPeer& peer : gpu.facts().peers())
      is_text = is_text && IsText(peer.pci_address(), kMaxLabelValue);
    if (!is_text) problems.push_back("a text in the facts of a GPU is too long or has control characters");
  }
  if (!IsText(node.gpu_source().problem(), kMaxText))
    problems.push_back("gpu_source.problem is too long or has control characters");
}

void CheckNode(const v1::Node& node, std::vector<std::string>& problems) {
  if (!IsId(node.node_id())) problems.push_back("node_id must be 1 to 64 of [A-Za-z0-9_-]");
  if (!IsSafeName(node.hostname())) {
    problems.push_back(
        absl::StrCat("hostname \"", CutUtf8(EscapeControl(ToValidUtf8(node.hostname())), 80),
                     "\" must be 1 to 253 printable ASCII characters without spaces, quotes or markup"));
  }
  CheckTexts(node.labels(), "label", problems);
  CheckTexts(node.versions(), "version", problems);
  CheckParts(node, problems);
}

absl::Status Refusal(absl::string_view what, const std::vector<std::string>& problems) {
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " refused: ", absl::StrJoin(problems, "; ")));
}

}  // namespace

std::variant<Result, RecordRefusal> ValidateRecord(const v1::SpoolRecord& record, absl::string_view node_id) {
  if (record.result().size() > kMaxRecordBytes) {
    return RecordRefusal{v1::REJECT_REASON_TOO_LARGE,
                         absl::StrCat(record.result().size(), " bytes, limit ", kMaxRecordBytes)};
  }
  v1::Result message;
  if (!message.ParseFromString(record.result())) {
    return RecordRefusal{v1::REJECT_REASON_MALFORMED, "not a weft.v1.Result (cut short, or invalid UTF-8)"};
  }
  if (message.measurements_size() > kMaxMeasurements || message.missing_ranks_size() > kMaxMeasurements) {
    return RecordRefusal{v1::REJECT_REASON_TOO_LARGE,
                         absl::StrCat("more than ", kMaxMeasurements, " measurements")};
  }
  if (message.node_id() != node_id) {
    return RecordRefusal{v1::REJECT_REASON_WRONG_NODE, "the record speaks for another node than the stream"};
  }
  const std::string bad = BadField(message);
  if (!bad.empty()) return RecordRefusal{v1::REJECT_REASON_BAD_FIELD, absl::StrCat(bad, " is out of range")};
  for (const v1::Measurement& measurement : message.measurements()) {
    if (!NumbersAreSound(measurement)) {
      return RecordRefusal{v1::REJECT_REASON_BAD_NUMBER, "a measurement is NaN, infinite or negative"};
    }
  }
  absl::StatusOr<Result> result = FromProto(message);
  if (!result.ok()) return RecordRefusal{v1::REJECT_REASON_BAD_FIELD, std::string(result.status().message())};
  return *std::move(result);
}

absl::Status ValidateHello(const v1::Hello& hello) {
  std::vector<std::string> problems;
  CheckNode(hello.node(), problems);
  if (!IsId(hello.boot_id())) problems.push_back("boot_id must be 1 to 64 of [A-Za-z0-9_-]");
  if (!IsId(hello.epoch())) problems.push_back("epoch must be 1 to 64 of [A-Za-z0-9_-]");
  if (hello.probe_kinds_size() > kMaxParts) problems.push_back("too many probe kinds");
  return Refusal("hello", problems);
}

absl::Status ValidateNode(const v1::Node& node) {
  std::vector<std::string> problems;
  CheckNode(node, problems);
  return Refusal("node", problems);
}

}  // namespace weft
