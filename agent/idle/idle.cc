#include "agent/idle/idle.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/units.h"

namespace weft {
namespace {

std::string ProcessText(const v1::GpuUse& gpu, const v1::GpuProcess& process) {
  std::string text = absl::StrCat("process ", process.pid(), " computes on GPU ", gpu.pci_address());
  if (process.has_memory_bytes())
    absl::StrAppend(&text, " (", FormatMessageSize(process.memory_bytes() >> 20 << 20), ")");
  return text;
}

absl::Status UnknownProcesses(const v1::GpuUse& gpu) {
  return absl::FailedPreconditionError(
      absl::StrCat("the driver does not say which processes use GPU ", gpu.pci_address()));
}

}  // namespace

absl::Status CheckGpusIdle(const v1::GpuActivity& activity, const IdleLimits& limits,
                           const std::function<Kinship(pid_t)>& kinship) {
  if (activity.gpus().empty()) return absl::FailedPreconditionError("the driver shows no GPU on this node");
  for (const v1::GpuUse& gpu : activity.gpus()) {
    for (const v1::GpuProcess& process : gpu.processes())
      if (kinship(static_cast<pid_t>(process.pid())) != Kinship::kOwn)
        return absl::UnavailableError(ProcessText(gpu, process));
    if (gpu.utilization_percent() > limits.gpu_utilization_percent)
      return absl::UnavailableError(absl::StrCat("GPU ", gpu.pci_address(), " is used to ",
                                                 gpu.utilization_percent(), "%, limit ",
                                                 limits.gpu_utilization_percent, "%"));
    if (gpu.memory_used_bytes() > limits.gpu_memory_bytes)
      return absl::UnavailableError(absl::StrCat(
          FormatMessageSize(gpu.memory_used_bytes() >> 20 << 20), " of GPU ", gpu.pci_address(),
          " are in use by nobody whom the driver names, limit ", FormatMessageSize(limits.gpu_memory_bytes)));
  }
  for (const v1::GpuUse& gpu : activity.gpus())
    if (!gpu.processes_known()) return UnknownProcesses(gpu);
  return absl::OkStatus();
}

absl::Status CheckNicsIdle(const std::vector<NicTraffic>& traffic, absl::Duration during,
                           const std::map<std::string, uint64_t>& rates, const IdleLimits& limits) {
  const double seconds = absl::ToDoubleSeconds(during);
  if (seconds <= 0) return absl::FailedPreconditionError("the NICs were not watched for any time");
  double worst = 1;
  std::string text;
  for (const NicTraffic& nic : traffic) {
    const auto rate = rates.find(nic.nic);
    const double nominal = rate == rates.end() ? 0 : static_cast<double>(rate->second);
    const double limit =
        std::max(static_cast<double>(limits.nic_bytes_per_second), limits.nic_share * nominal);
    const double now = static_cast<double>(std::max(nic.sent_bytes, nic.received_bytes)) / seconds;
    if (now / limit <= worst) continue;
    worst = now / limit;
    text = absl::StrCat(nic.nic, " moves ", FormatBandwidth(now), ", limit ", FormatBandwidth(limit));
  }
  return text.empty() ? absl::OkStatus() : absl::UnavailableError(text);
}

v1::Outcome OutcomeOfDecline(const absl::Status& why) {
  if (absl::IsUnavailable(why)) return v1::OUTCOME_SKIPPED_BUSY;
  return absl::IsCancelled(why) ? v1::OUTCOME_FAILED : v1::OUTCOME_REFUSED;
}

absl::Status JobWatch::Look(const v1::GpuActivity& activity, const std::function<Kinship(pid_t)>& kinship) {
  std::vector<pid_t> unseen;
  for (const v1::GpuUse& gpu : activity.gpus()) {
    if (!gpu.processes_known()) return UnknownProcesses(gpu);
    for (const v1::GpuProcess& process : gpu.processes()) {
      const auto pid = static_cast<pid_t>(process.pid());
      const Kinship kin = kinship(pid);
      if (kin == Kinship::kOwn) own_.insert(pid);
      if (kin == Kinship::kGone && own_.count(pid) > 0) continue;
      const bool unseen_before = std::find(unseen_.begin(), unseen_.end(), pid) != unseen_.end();
      if (kin == Kinship::kForeign || (kin == Kinship::kGone && unseen_before))
        return absl::UnavailableError(ProcessText(gpu, process));
      if (kin == Kinship::kGone) unseen.push_back(pid);
    }
  }
  unseen_ = std::move(unseen);
  return absl::OkStatus();
}

}  // namespace weft
