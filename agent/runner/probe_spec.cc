#include "agent/runner/probe_spec.h"

#include <unistd.h>

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
constexpr uint64_t kLeastCollectiveBytes = 8;
constexpr uint64_t kMaxCollectiveBytes = 16ULL << 30;
constexpr uint32_t kMaxIterations = 10000;
constexpr uint32_t kMaxWarmUp = 1000;
constexpr absl::Duration kMaxPartDeadline = absl::Minutes(10);
constexpr uint32_t kMaxParticipants = 1024;
constexpr uint64_t kLeastCopyBytes = 4 << 10;
constexpr uint64_t kMaxCopyBytes = 4ULL << 30;
constexpr uint32_t kMaxCopies = 1000;

// The list is fixed here: a server names kinds, never paths.
struct Kind {
  v1::ProbeSpec::KindCase number;
  const char* name;
  const char* executable;
};
constexpr Kind kKinds[] = {{v1::ProbeSpec::kFabric, "fabric", "weft-probe-fabric"},
                           {v1::ProbeSpec::kNccl, "nccl", "weft-probe-nccl"},
                           {v1::ProbeSpec::kGpuCopy, "gpu_copy", "weft-probe-gpu-copy"}};

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

bool IsNetworkChar(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == ' ' || c == '.' || c == '-';
}

// Zero seconds and nanoseconds stand for the default.
absl::Status ValidatePart(absl::string_view field, const google::protobuf::Duration& d) {
  const bool sound = d.seconds() >= 0 && d.nanos() >= 0 && d.nanos() <= 999999999 &&
                     absl::Seconds(d.seconds()) + absl::Nanoseconds(d.nanos()) <= kMaxPartDeadline;
  return sound ? absl::OkStatus() : OutOfBounds(field, "0 to 10 min");
}

absl::Status ValidateNcclSizes(const v1::NcclProbe& probe) {
  if (probe.message_size_bytes_size() > kMaxMessageSizes)
    return OutOfBounds("nccl.message_size_bytes", "at most 16 sizes");
  for (const uint64_t size : probe.message_size_bytes())
    if (size < kLeastCollectiveBytes || size > kMaxCollectiveBytes)
      return OutOfBounds("nccl.message_size_bytes", absl::StrCat("8 B to 16 GiB, not ", size));
  if (probe.iterations() > kMaxIterations) return OutOfBounds("nccl.iterations", "at most 10000");
  if (probe.warm_up_iterations() > kMaxWarmUp) return OutOfBounds("nccl.warm_up_iterations", "at most 1000");
  return absl::OkStatus();
}

// An unknown number of an open enum would be taken for the default.
absl::Status ValidateNcclEnums(const v1::NcclProbe& probe) {
  if (!v1::NcclCollective_IsValid(probe.collective())) return OutOfBounds("nccl.collective", "a known one");
  if (!v1::NcclDataType_IsValid(probe.data_type())) return OutOfBounds("nccl.data_type", "a known one");
  if (!v1::NcclTiming_IsValid(probe.timing())) return OutOfBounds("nccl.timing", "a known one");
  if (!v1::NcclPlacement_IsValid(probe.placement())) return OutOfBounds("nccl.placement", "a known one");
  const bool moves_pairs = probe.collective() == v1::NCCL_COLLECTIVE_ALL_TO_ALL ||
                           probe.collective() == v1::NCCL_COLLECTIVE_SEND_RECV;
  const bool in_place =
      probe.placement() == v1::NCCL_PLACEMENT_IN_PLACE || probe.placement() == v1::NCCL_PLACEMENT_BOTH;
  if (moves_pairs && in_place)
    return OutOfBounds("nccl.placement", "out of place for all-to-all and send-receive");
  return absl::OkStatus();
}

absl::Status ValidateNccl(const v1::NcclProbe& probe) {
  if (absl::Status s = ValidateNcclEnums(probe); !s.ok()) return s;
  if (absl::Status s = ValidateNcclSizes(probe); !s.ok()) return s;
  const std::string& network = probe.require_network();
  if (network.size() > kMaxNameBytes || !std::all_of(network.begin(), network.end(), IsNetworkChar))
    return OutOfBounds("nccl.require_network", "at most 64 characters of [A-Za-z0-9_ .-]");
  if (absl::Status s = ValidatePart("nccl.init_deadline", probe.init_deadline()); !s.ok()) return s;
  return ValidatePart("nccl.size_deadline", probe.size_deadline());
}

absl::Status ValidateGpuCopy(const v1::GpuCopyProbe& probe) {
  if (probe.bytes() != 0 && (probe.bytes() < kLeastCopyBytes || probe.bytes() > kMaxCopyBytes))
    return OutOfBounds("gpu_copy.bytes", "4 KiB to 4 GiB");
  if (probe.iterations() > kMaxCopies) return OutOfBounds("gpu_copy.iterations", "at most 1000");
  if (probe.skip_device_to_device() && probe.skip_host() && probe.skip_peer())
    return OutOfBounds("gpu_copy.skip_peer", "unset where the others are set: nothing would be measured");
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
  const uint32_t size = request.world_size();
  switch (request.spec().kind_case()) {
    case v1::ProbeSpec::kNccl:
      if (size < 1 || size > kMaxParticipants)
        return OutOfBounds("world_size", "1 to 1024 for the NCCL probe");
      break;
    case v1::ProbeSpec::kGpuCopy:
      if (size != 1) return OutOfBounds("world_size", "1 for the copy probe");
      break;
    default:
      if (size != 2) return OutOfBounds("world_size", "2 for the fabric probe");
  }
  if (request.rank() >= size) return OutOfBounds("rank", "below world_size");
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateProbeSpec(const v1::ProbeSpec& spec) {
  if (absl::Status s = ValidateName(spec.name()); !s.ok()) return s;
  switch (spec.kind_case()) {
    case v1::ProbeSpec::kFabric:
      return ValidateFabric(spec.fabric());
    case v1::ProbeSpec::kNccl:
      return ValidateNccl(spec.nccl());
    case v1::ProbeSpec::kGpuCopy:
      return ValidateGpuCopy(spec.gpu_copy());
    case v1::ProbeSpec::KIND_NOT_SET:
      break;
  }
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
  for (const Kind& kind : kKinds)
    if (kind.number == spec.kind_case()) return std::string(kind.executable);
  return UnknownKind();
}

std::vector<std::string> KnownProbeKinds(const std::string& probe_dir) {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds)
    if (access(absl::StrCat(probe_dir, "/", kind.executable).c_str(), X_OK) == 0)
      names.emplace_back(kind.name);
  return names;
}

bool UsesGpu(const v1::ProbeSpec& spec) {
  return spec.kind_case() != v1::ProbeSpec::kFabric || spec.fabric().gpu_memory();
}

absl::Duration RequestDeadline(const v1::ProbeRequest& request) {
  const auto& d = request.deadline();
  if (d.seconds() < 0 || d.nanos() < 0 || d.nanos() > 999999999) return absl::ZeroDuration();
  return absl::Seconds(d.seconds()) + absl::Nanoseconds(d.nanos());
}

}  // namespace weft
