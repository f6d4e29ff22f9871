#include "agent/runner/reply_reader.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "agent/runner/probe_spec.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr size_t kMaxFrames = 10000;
constexpr size_t kMaxPhaseBytes = 64;
constexpr size_t kMaxDetailBytes = 4096;
constexpr size_t kMaxFingerprintBytes = 1024;
constexpr int kMaxMeasurements = 1024;

absl::Status Broken(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("the probe broke its protocol: ", what));
}

bool IsMagnitude(double value) { return std::isfinite(value) && value >= 0; }

bool IsSane(const v1::Distribution& d) {
  return IsMagnitude(d.min()) && IsMagnitude(d.p10()) && IsMagnitude(d.p50()) && IsMagnitude(d.p90()) &&
         IsMagnitude(d.p99()) && IsMagnitude(d.max());
}

bool IsSane(const v1::Measurement& m) {
  return m.metric() != v1::METRIC_UNSPECIFIED && v1::Metric_IsValid(m.metric()) && IsMagnitude(m.value()) &&
         IsMagnitude(m.elapsed_seconds()) && IsSane(m.distribution());
}

absl::Status CheckMeasurements(const v1::Result& result) {
  const bool ok = result.outcome() == v1::OUTCOME_OK;
  if (ok && result.measurements().empty()) return Broken("a result that is OK without a measurement");
  if (!ok && !result.measurements().empty()) return Broken("measurements in a result that is not OK");
  if (result.measurements_size() > kMaxMeasurements) return Broken("more than 1024 measurements");
  for (const v1::Measurement& m : result.measurements())
    if (!IsSane(m)) return Broken("a measurement that is negative, not finite or of no known metric");
  return absl::OkStatus();
}

}  // namespace

absl::Status ReplyReader::Append(absl::string_view bytes) {
  decoder_.Append(bytes);
  while (true) {
    absl::StatusOr<std::optional<std::string>> frame = decoder_.Next();
    if (!frame.ok()) return Broken(frame.status().message());
    if (!frame->has_value()) return absl::OkStatus();
    if (++frames_ > kMaxFrames) return Broken("more than 10000 frames");
    if (result_) return Broken("a frame after its result");
    v1::ProbeReply reply;
    if (!reply.ParseFromString(**frame)) return Broken("a frame that is no ProbeReply");
    if (absl::Status s = Take(reply); !s.ok()) return s;
  }
}

absl::Status ReplyReader::Take(const v1::ProbeReply& reply) {
  switch (reply.reply_case()) {
    case v1::ProbeReply::kRendezvous:
      return TakeRendezvous(reply.rendezvous());
    case v1::ProbeReply::kResult:
      return TakeResult(reply.result());
    case v1::ProbeReply::kPhase:
      phase_ = CutUtf8(reply.phase(), kMaxPhaseBytes);
      return absl::OkStatus();
    case v1::ProbeReply::REPLY_NOT_SET:
      break;
  }
  return Broken("an empty reply");
}

absl::Status ReplyReader::TakeRendezvous(const std::string& rendezvous) {
  if (has_rendezvous_) return Broken("a second rendezvous");
  if (rendezvous.empty() || rendezvous.size() > kMaxRendezvousBytes)
    return Broken(absl::StrCat("a rendezvous of ", rendezvous.size(), " bytes, allowed are 1 to 4096"));
  has_rendezvous_ = true;
  if (on_rendezvous_) on_rendezvous_(rendezvous);
  return absl::OkStatus();
}

absl::Status ReplyReader::TakeResult(const v1::Result& result) {
  if (result.outcome() == v1::OUTCOME_UNSPECIFIED || !v1::Outcome_IsValid(result.outcome()))
    return Broken("a result without an outcome");
  if (absl::Status s = CheckMeasurements(result); !s.ok()) return s;
  result_ = result;
  result_->set_detail(CutUtf8(result.detail(), kMaxDetailBytes));
  result_->set_phase(CutUtf8(result.phase(), kMaxPhaseBytes));
  result_->set_stack_fingerprint(CutUtf8(result.stack_fingerprint(), kMaxFingerprintBytes));
  result_->clear_node_id();
  return absl::OkStatus();
}

}  // namespace weft
