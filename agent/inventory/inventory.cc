#include "agent/inventory/inventory.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "agent/inventory/sysfs.h"
#include "base/file.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr size_t kMaxDevices = 64;
constexpr uint64_t kBytesPerMegabit = 125'000;
constexpr uint64_t kMaxMegabits = 100'000'000;  // 100 Tbit/s: more is no speed of a link
constexpr absl::string_view kNvidia = "0x10de";

// "0000:17:00.0"
bool IsPciAddress(absl::string_view text) {
  return text.size() == 12 && text[4] == ':' && text[7] == ':' && text[10] == '.';
}

std::string PciAddress(const std::string& device_link) {
  const std::string name = LinkTarget(device_link);
  return IsPciAddress(name) ? name : "";
}

uint64_t RateOfMegabits(std::optional<uint64_t> megabits) {
  return megabits.has_value() && *megabits <= kMaxMegabits ? *megabits * kBytesPerMegabit : 0;
}

std::string NetLinkLayer(const std::string& folder) {
  switch (ReadSysfsNumber(folder + "/type").value_or(0)) {
    case 1:
      return "Ethernet";
    case 32:
      return "InfiniBand";
    default:
      return "";
  }
}

Nic ReadInterface(const std::string& folder, const std::string& name) {
  return {.name = name,
          .driver = LinkTarget(folder + "/device/driver"),
          .rate_bytes_per_second = RateOfMegabits(ReadSysfsNumber(folder + "/speed")),
          .link_layer = NetLinkLayer(folder),
          .state = ReadSysfsText(folder + "/operstate"),
          .pci_address = PciAddress(folder + "/device")};
}

std::vector<Nic> ReadInterfaces(const std::string& root) {
  std::vector<Nic> out;
  for (const std::string& name : ListFolder(root + "/sys/class/net")) {
    const std::string folder = absl::StrCat(root, "/sys/class/net/", name);
    // bonding_masters is a file in this folder.
    const bool interface = !ListFolder(folder).empty();
    if (name != "lo" && interface && IsSafeName(name)) out.push_back(ReadInterface(folder, name));
  }
  // A container host has hundreds of virtual ones; the cards must not fall behind them.
  std::stable_partition(out.begin(), out.end(), [](const Nic& nic) { return !nic.pci_address.empty(); });
  if (out.size() > kMaxDevices) out.resize(kMaxDevices);
  return out;
}

// "100 Gb/sec (4X EDR)"
uint64_t ParseInfinibandRate(absl::string_view text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  double gigabits = 0;
  if (words.size() < 2 || words[1] != "Gb/sec" || !absl::SimpleAtod(words[0], &gigabits)) return 0;
  if (!(gigabits > 0 && gigabits < 1e5)) return 0;
  return static_cast<uint64_t>(gigabits * 1e9 / 8);
}

// "4: ACTIVE"
std::string ParsePortState(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(": ", 1));
  return parts.back();
}

Nic ReadRdmaDevice(const std::string& folder, const std::string& name) {
  const std::vector<std::string> ports = ListFolder(folder + "/ports");
  const std::string port = absl::StrCat(folder, "/ports/", ports.empty() ? "1" : ports.front());
  return {.name = name,
          .driver = LinkTarget(folder + "/device/driver"),
          .rate_bytes_per_second = ParseInfinibandRate(ReadSysfsText(port + "/rate")),
          .link_layer = ReadSysfsText(port + "/link_layer"),
          .state = ParsePortState(ReadSysfsText(port + "/state")),
          .pci_address = PciAddress(folder + "/device")};
}

std::vector<Nic> ReadRdmaDevices(const std::string& root) {
  std::vector<Nic> out;
  for (const std::string& name : ListFolder(root + "/sys/class/infiniband")) {
    if (out.size() == kMaxDevices) break;
    if (IsSafeName(name))
      out.push_back(ReadRdmaDevice(absl::StrCat(root, "/sys/class/infiniband/", name), name));
  }
  return out;
}

// Lines like "Model: \t\t NVIDIA H200".
void ReadGpuInformation(const std::string& path, Gpu* gpu) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return;
  for (const absl::string_view line : absl::StrSplit(text->substr(0, 4096), '\n')) {
    const std::pair<std::string, std::string> kv = absl::StrSplit(line, absl::MaxSplits(':', 1));
    const std::string value = EscapeControl(CutUtf8(ToValidUtf8(absl::StripAsciiWhitespace(kv.second)), 128));
    // Until the driver has woken the GPU its UUID reads "GPU-????????-…".
    if (kv.first == "GPU UUID" && !absl::StrContains(value, "?")) gpu->uuid = value;
    if (kv.first == "Model" && !absl::StartsWithIgnoreCase(value, "unknown")) gpu->model = value;
  }
}

std::vector<Gpu> ReadGpus(const std::string& root) {
  std::vector<Gpu> out;
  for (const std::string& address : ListFolder(root + "/sys/bus/pci/devices")) {
    const std::string folder = absl::StrCat(root, "/sys/bus/pci/devices/", address);
    // Class 03: display controllers, with and without a video output.
    const bool gpu = ReadSysfsText(folder + "/vendor") == kNvidia &&
                     absl::StartsWith(ReadSysfsText(folder + "/class"), "0x03");
    if (!gpu || !IsPciAddress(address) || out.size() == kMaxDevices) continue;
    out.push_back({.pci_address = address, .uuid = "", .model = ""});
    ReadGpuInformation(absl::StrCat(root, "/proc/driver/nvidia/gpus/", address, "/information"), &out.back());
  }
  return out;
}

std::map<std::string, std::string> ReadVersions(const InventoryOptions& options) {
  std::map<std::string, std::string> out = {
      {"agent", options.agent_version},
      {"kernel", ReadSysfsText(options.root + "/proc/sys/kernel/osrelease")},
      {"nvidia_driver", ReadSysfsText(options.root + "/sys/module/nvidia/version")},
      {"mlx5_driver", ReadSysfsText(options.root + "/sys/module/mlx5_core/version")},
      {"efa_driver", ReadSysfsText(options.root + "/sys/module/efa/version")}};
  for (auto it = out.begin(); it != out.end();) it = it->second.empty() ? out.erase(it) : std::next(it);
  return out;
}

std::string Hostname(const InventoryOptions& options) {
  if (!options.hostname.empty()) return options.hostname;
  const std::string name = ReadSysfsText(options.root + "/proc/sys/kernel/hostname");
  return IsSafeName(name) ? name : "unknown";
}

}  // namespace

Node ReadInventory(const std::string& node_id, const InventoryOptions& options) {
  Node node;
  node.id = node_id;
  node.hostname = Hostname(options);
  node.labels = options.labels;
  node.nics = ReadRdmaDevices(options.root);
  for (Nic& nic : ReadInterfaces(options.root)) node.nics.push_back(std::move(nic));
  node.gpus = ReadGpus(options.root);
  node.versions = ReadVersions(options);
  return node;
}

}  // namespace weft
