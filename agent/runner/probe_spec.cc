#include "agent/runner/probe_spec.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr uint64_t kMaxMessageBytes = 64ULL << 20;
constexpr int kMaxMessageSizes = 16;
constexpr uint32_t kMaxWindow = 1024;
constexpr uint64_t kMaxBytesPerSize = 16ULL << 30;
constexpr uint32_t kMaxLatencyIterations = 1000000;
constexpr size_t kMaxNameBytes = 64;

bool IsProbeNameChar(char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_'; }

bool IsProviderChar(char c) { return IsProbeNameChar(c) || c == ';' || c == '-'; }

absl::Status OutOfBounds(absl::string_view field, absl::string_view limit) {
  return absl::InvalidArgumentError(absl::StrCat("probe field ", field, " must be ", limit));
}

absl::Status ValidateName(const std::string& name) {
  const bool good =
      !name.empty() && name.size() <= kMaxNameBytes && std::all_of(name.begin(), name.end(), IsProbeNameChar);
  return good ? absl::OkStatus() : OutOfBounds("name", "1 to 64 characters of [a-z0-9_]");
}

absl::Status ValidatePlace(const v1::FabricProbe& probe) {
  const std::string& provider = probe.provider();
  if (provider.size() > kMaxNameBytes || !std::all_of(provider.begin(), provider.end(), IsProviderChar))
    return OutOfBounds("fabric.provider", "at most 64 characters of [a-z0-9_;-]");
  const std::string& domain = probe.domain();
  if (!domain.empty() && (domain.size() > kMaxNameBytes || !IsSafeName(domain)))
    return OutOfBounds("fabric.domain", "at most 64 printable characters without space or quotes");
  return absl::OkStatus();
}

absl::Status ValidateSizes(const v1::FabricProbe& probe) {
  if (probe.message_size_bytes_size() > kMaxMessageSizes)
    return OutOfBounds("fabric.message_size_bytes", "at most 16 sizes");
  for (const uint64_t size : probe.message_size_bytes())
    if (size < 1 || size > kMaxMessageBytes)
      return OutOfBounds("fabric.message_size_bytes", absl::StrCat("1 B to 64 MiB, not ", size));
  return absl::OkStatus();
}

absl::Status ValidateFabric(const v1::FabricProbe& probe) {
  if (absl::Status s = ValidatePlace(probe); !s.ok()) return s;
  if (absl::Status s = ValidateSizes(probe); !s.ok()) return s;
  if (probe.window() > kMaxWindow) return OutOfBounds("fabric.window", "1 to 1024");
  if (probe.bytes_per_size() > kMaxBytesPerSize) return OutOfBounds("fabric.bytes_per_size", "1 B to 16 GiB");
  if (probe.latency_iterations() > kMaxLatencyIterations)
    return OutOfBounds("fabric.latency_iterations", "at most 1000000");
  if (probe.skip_latency() && probe.skip_bandwidth())
    return OutOfBounds("fabric.skip_bandwidth", "unset where skip_latency is set: nothing would be measured");
  return absl::OkStatus();
}

absl::Status UnknownKind() {
  return absl::UnimplementedError("this agent does not know such a probe kind; upgrade it or the plan");
}

absl::Status ValidateRendezvous(const v1::ProbeRequest& request) {
  const std::string& rendezvous = request.rendezvous();
  if (rendezvous.size() > kMaxRendezvousBytes) return OutOfBounds("rendezvous", "at most 4 KiB");
  if (request.rank() == 0 && !rendezvous.empty()) return OutOfBounds("rendezvous", "empty for rank 0");
  if (request.rank() > 0 && rendezvous.empty())
    return OutOfBounds("rendezvous", "that of rank 0 for the other ranks");
  return absl::OkStatus();
}

absl::Status ValidateRanks(const v1::ProbeRequest& request) {
  if (request.world_size() != 2) return OutOfBounds("world_size", "2 for the fabric probe");
  if (request.rank() >= request.world_size()) return OutOfBounds("rank", "below world_size");
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateProbeSpec(const v1::ProbeSpec& spec) {
  if (absl::Status s = ValidateName(spec.name()); !s.ok()) return s;
  if (spec.kind_case() == v1::ProbeSpec::kFabric) return ValidateFabric(spec.fabric());
  return UnknownKind();
}

absl::Status ValidateProbeRequest(const v1::ProbeRequest& request) {
  if (absl::Status s = ValidateProbeSpec(request.spec()); !s.ok()) return s;
  if (absl::Status s = ValidateRanks(request); !s.ok()) return s;
  if (absl::Status s = ValidateRendezvous(request); !s.ok()) return s;
  const absl::Duration deadline = RequestDeadline(request);
  if (deadline <= absl::ZeroDuration() || deadline > kMaxProbeDeadline)
    return OutOfBounds("deadline", "above 0 and at most 1 h");
  const double rate = request.emulated_link_bytes_per_second();
  if (!std::isfinite(rate) || rate < 0)
    return OutOfBounds("emulated_link_bytes_per_second", "finite and not negative");
  return absl::OkStatus();
}

absl::StatusOr<std::string> ProbeExecutable(const v1::ProbeSpec& spec) {
  if (spec.kind_case() == v1::ProbeSpec::kFabric) return std::string("weft-probe-fabric");
  return UnknownKind();
}

std::vector<std::string> KnownProbeKinds() { return {"fabric"}; }

bool UsesGpu(const v1::ProbeSpec& spec) {
  return spec.kind_case() != v1::ProbeSpec::kFabric || spec.fabric().gpu_memory();
}

absl::Duration RequestDeadline(const v1::ProbeRequest& request) {
  const auto& d = request.deadline();
  if (d.seconds() < 0 || d.nanos() < 0 || d.nanos() > 999999999) return absl::ZeroDuration();
  return absl::Seconds(d.seconds()) + absl::Nanoseconds(d.nanos());
}

}  // namespace weft
