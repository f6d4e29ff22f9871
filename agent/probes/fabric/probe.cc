#include "agent/probes/fabric/probe.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/probes/fabric/device.h"
#include "agent/probes/fabric/endpoint.h"
#include "agent/probes/fabric/offer.h"
#include "agent/probes/fabric/parameters.h"
#include "agent/probes/fabric/session.h"
#include "base/id.h"
#include "base/text.h"

extern char** environ;

namespace weft::fabric {
namespace {

constexpr size_t kMaxOfferBytes = 4096;
constexpr size_t kMaxSettings = 32;
constexpr size_t kMaxSettingBytes = 128;
// Beside the window: control messages.
constexpr size_t kSpareOperations = 64;

// libfabric's settings change what numbers mean.
std::string FabricSettings() {
  std::vector<std::string> settings;
  for (char** entry = environ; *entry != nullptr && settings.size() < kMaxSettings; ++entry)
    if (absl::StartsWith(*entry, "FI_")) settings.push_back(CutUtf8(ToValidUtf8(*entry), kMaxSettingBytes));
  std::sort(settings.begin(), settings.end());
  return absl::StrJoin(settings, " ");
}

std::string Fingerprint(const Device& device) {
  const uint32_t version = device.info->fabric_attr->prov_version;
  std::string text = absl::StrCat("weft-fabric/", kFormulaVersion, " libfabric/", LibraryVersion(), " ",
                                  device.provider, "/", FI_MAJOR(version), ".", FI_MINOR(version),
                                  device.delivery_complete ? " delivery_complete" : " transmit_complete");
  const std::string settings = FabricSettings();
  if (!settings.empty()) absl::StrAppend(&text, " ", settings);
  return text;
}

using Endpoints = std::vector<std::unique_ptr<Endpoint>>;

size_t OperationsFor(const Parameters& parameters) {
  uint64_t slots = 1;
  for (const Transfer& t : parameters.transfers) slots = std::max(slots, t.slots);
  return static_cast<size_t>(slots) + kSpareOperations;
}

absl::StatusOr<Endpoints> OpenAll(std::vector<Device> devices, const Parameters& parameters) {
  Endpoints endpoints;
  for (Device& device : devices) {
    auto endpoint = Endpoint::Open(std::move(device), OperationsFor(parameters), Waiting::kBlock);
    if (!endpoint.ok()) return endpoint.status();
    endpoints.push_back(std::move(*endpoint));
  }
  return endpoints;
}

// Which of our devices faces the peer's: that of the same name, else that on the same network, else the one
// at the same place in the list.
Device* FacingDevice(std::vector<Device>& mine, const OfferedDomain& theirs, size_t place) {
  for (Device& d : mine)
    if (d.domain == theirs.domain) return &d;
  for (Device& d : mine)
    if (d.fabric == theirs.fabric) return &d;
  return place < mine.size() ? &mine[place] : nullptr;
}

class Probe {
 public:
  Probe(const v1::ProbeRequest& request, const ProbeSinks& sinks)
      : request_(request),
        sinks_(sinks),
        parameters_(MakeParameters(request.spec().fabric())),
        deadline_(ProbeDeadline(request)) {}

  absl::Status Run() { return request_.rank() == 0 ? RunRank0() : RunRank1(); }
  v1::Result Finish(const absl::Status& status);

 private:
  absl::Status RunRank0();
  absl::Status RunRank1();
  absl::Status RunRank1On(const Device& device, const Offer& offer, const OfferedDomain& theirs);
  absl::StatusOr<Offer> MakeOffer(const Endpoints& endpoints) const;
  absl::Status RunSession(Endpoint& endpoint, const std::string& token, const std::string& peer_address);
  void Phase(const char* phase) {
    if (phase_ == phase) return;
    phase_ = phase;
    sinks_.on_phase(phase);
  }

  const v1::ProbeRequest& request_;
  const ProbeSinks& sinks_;
  const Parameters parameters_;
  const int64_t deadline_;
  std::string phase_;
  bool met_ = false;
  v1::Result result_;
};

absl::StatusOr<Offer> Probe::MakeOffer(const Endpoints& endpoints) const {
  Offer offer;
  offer.provider = endpoints.front()->device().provider;
  offer.session = absl::HexStringToBytes(RandomHex(kSessionBytes));
  for (const auto& endpoint : endpoints) {
    const Device& device = endpoint->device();
    if (endpoint->address().size() > kMaxAddressBytes)
      return absl::UnimplementedError(absl::StrCat("addresses of ", device.provider, " are too long"));
    offer.domains.push_back({device.domain, device.fabric, endpoint->address()});
  }
  if (EncodeOffer(offer).size() > kMaxOfferBytes)
    return absl::ResourceExhaustedError("too many domains for one rendezvous; name one in the probe");
  return offer;
}

absl::Status Probe::RunSession(Endpoint& endpoint, const std::string& token,
                               const std::string& peer_address) {
  if (result_.provider().empty()) {
    result_.set_provider(endpoint.device().provider);
    result_.set_stack_fingerprint(Fingerprint(endpoint.device()));
  }
  Session session(endpoint, parameters_,
                  {.rank = request_.rank(),
                   .deadline = deadline_,
                   .link_rate = request_.emulated_link_bytes_per_second(),
                   .token = token,
                   .peer_address = peer_address},
                  [this](const char* phase) { Phase(phase); });
  const absl::Status status = session.Run();
  met_ = met_ || !absl::IsNotFound(status);
  if (session.emulated_link()) result_.set_emulated_link(true);
  for (const v1::Measurement& m : session.measurements()) *result_.add_measurements() = m;
  return status;
}

absl::Status Probe::RunRank0() {
  Phase("open");
  absl::StatusOr<std::vector<Device>> devices = FindDevices(parameters_.provider, parameters_.domain);
  if (!devices.ok()) return devices.status();
  absl::StatusOr<Endpoints> endpoints = OpenAll(std::move(*devices), parameters_);
  if (!endpoints.ok()) return endpoints.status();
  absl::StatusOr<Offer> offer = MakeOffer(*endpoints);
  if (!offer.ok()) return offer.status();
  sinks_.on_rendezvous(EncodeOffer(*offer));
  for (auto& endpoint : *endpoints)
    if (absl::Status s = RunSession(*endpoint, offer->session, ""); !s.ok()) return s;
  return absl::OkStatus();
}

absl::Status Probe::RunRank1On(const Device& device, const Offer& offer, const OfferedDomain& theirs) {
  auto endpoint = Endpoint::Open(Copy(device), OperationsFor(parameters_), Waiting::kBlock);
  if (!endpoint.ok()) return endpoint.status();
  return RunSession(**endpoint, offer.session, theirs.address);
}

absl::Status Probe::RunRank1() {
  Phase("open");
  const absl::StatusOr<Offer> offer = DecodeOffer(request_.rendezvous());
  if (!offer.ok()) return offer.status();
  absl::StatusOr<std::vector<Device>> devices = FindDevices(offer->provider, parameters_.domain);
  if (!devices.ok()) return devices.status();
  for (size_t i = 0; i < offer->domains.size(); ++i) {
    Device* device = FacingDevice(*devices, offer->domains[i], i);
    if (device == nullptr)
      return absl::FailedPreconditionError(
          absl::StrCat("rank 0 has ", offer->domains[i].domain, ", and no domain here faces it"));
    if (absl::Status s = RunRank1On(*device, *offer, offer->domains[i]); !s.ok()) return s;
  }
  return absl::OkStatus();
}

v1::Outcome OutcomeOf(const absl::Status& status, bool met) {
  if (status.ok()) return v1::OUTCOME_OK;
  if (absl::IsNotFound(status) && !met) return v1::OUTCOME_PARTNER_MISSING;
  // A later domain on which the peer never appeared is a failure of that domain's path.
  if (absl::IsDeadlineExceeded(status) || absl::IsNotFound(status)) return v1::OUTCOME_TIMED_OUT;
  return v1::OUTCOME_FAILED;
}

v1::Result Probe::Finish(const absl::Status& status) {
  // Without a provider nobody was waited for: what was not found is a device.
  const bool waited = !result_.provider().empty();
  v1::Outcome outcome = OutcomeOf(status, met_);
  if (!waited && !status.ok()) outcome = v1::OUTCOME_FAILED;
  result_.set_outcome(outcome);
  result_.set_phase(phase_);
  if (!status.ok()) {
    result_.set_detail(ToValidUtf8(std::string(status.message())));
    result_.clear_measurements();
  }
  if (waited && absl::IsNotFound(status)) result_.add_missing_ranks(1 - request_.rank());
  return std::move(result_);
}

}  // namespace

v1::Result RunProbe(const v1::ProbeRequest& request, const ProbeSinks& sinks) {
  if (request.spec().fabric().gpu_memory()) {
    // Never host memory in its place: the number would pass for GPUDirect's.
    v1::Result result;
    result.set_outcome(v1::OUTCOME_REFUSED);
    result.set_detail(
        "this weft-probe-fabric was built without GPU memory (FI_HMEM); unset fabric.gpu_memory");
    return result;
  }
  Probe probe(request, sinks);
  const absl::Status status = probe.Run();
  return probe.Finish(status);
}

}  // namespace weft::fabric
