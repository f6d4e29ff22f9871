#include "agent/probes/fabric/device.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/fi_errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/probes/fabric/offer.h"

namespace weft::fabric {
namespace {

constexpr const char* kProviderOrder[] = {"efa", "verbs;ofi_rxm", "tcp;ofi_rxm", "tcp", "shm"};

InfoPtr MakeHints(const std::string& provider, const std::string& domain, uint64_t op_flags) {
  InfoPtr hints(fi_allocinfo());
  hints->caps = FI_MSG | FI_RMA;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->tx_attr->op_flags = op_flags;
  // fi_freeinfo frees these with free().
  hints->fabric_attr->prov_name = strdup(provider.c_str());
  if (!domain.empty()) hints->domain_attr->name = strdup(domain.c_str());
  return hints;
}

// All that the provider has, best first as it sees it; null when nothing.
InfoPtr Query(const std::string& provider, const std::string& domain, uint64_t op_flags) {
  const InfoPtr hints = MakeHints(provider, domain, op_flags);
  fi_info* list = nullptr;
  if (fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &list) != 0) return nullptr;
  return InfoPtr(list);
}

bool IsLoopback(const fi_info& info) {
  if (info.src_addr == nullptr) return false;
  if (info.addr_format == FI_SOCKADDR_IN && info.src_addrlen >= sizeof(sockaddr_in)) {
    sockaddr_in a;
    std::memcpy(&a, info.src_addr, sizeof a);
    return (ntohl(a.sin_addr.s_addr) >> 24) == 127;
  }
  if (info.addr_format == FI_SOCKADDR_IN6 && info.src_addrlen >= sizeof(sockaddr_in6)) {
    sockaddr_in6 a;
    std::memcpy(&a, info.src_addr, sizeof a);
    return IN6_IS_ADDR_LOOPBACK(&a.sin6_addr);
  }
  return false;
}

// Such an address means nothing without the interface it belongs to, which the peer cannot know.
bool IsLinkLocal(const fi_info& info) {
  if (info.addr_format != FI_SOCKADDR_IN6 || info.src_addrlen < sizeof(sockaddr_in6)) return false;
  sockaddr_in6 a;
  std::memcpy(&a, info.src_addr, sizeof a);
  return IN6_IS_ADDR_LINKLOCAL(&a.sin6_addr);
}

bool IsBridge(const std::string& domain) {
  if (domain.find('/') != std::string::npos) return false;
  return access(absl::StrCat("/sys/class/net/", domain, "/bridge").c_str(), F_OK) == 0;
}

Device MakeDevice(const fi_info& info, bool delivery_complete) {
  Device d;
  d.info = InfoPtr(fi_dupinfo(&info));
  d.info->tx_attr->op_flags = 0;
  d.provider = info.fabric_attr->prov_name;
  d.domain = info.domain_attr->name;
  d.fabric = info.fabric_attr->name ? info.fabric_attr->name : "-";
  d.loopback = IsLoopback(info);
  d.delivery_complete = delivery_complete;
  return d;
}

// One per domain: the provider's first entry, but IPv4 before IPv6, which more sites route.
void AddDevice(Device device, std::vector<Device>& devices) {
  const auto same = std::find_if(devices.begin(), devices.end(),
                                 [&](const Device& d) { return d.domain == device.domain; });
  if (same == devices.end()) {
    devices.push_back(std::move(device));
  } else if (same->info->addr_format == FI_SOCKADDR_IN6 && device.info->addr_format == FI_SOCKADDR_IN) {
    *same = std::move(device);
  }
}

void DropUnasked(std::vector<Device>& devices) {
  const auto drop = [&](const auto& unwanted) {
    devices.erase(std::remove_if(devices.begin(), devices.end(), unwanted), devices.end());
  };
  drop([](const Device& d) { return IsBridge(d.domain); });
  const bool others =
      std::any_of(devices.begin(), devices.end(), [](const Device& d) { return !d.loopback; });
  if (others) drop([](const Device& d) { return d.loopback; });
}

std::vector<Device> DevicesOf(const std::string& provider, const std::string& domain) {
  bool delivery_complete = true;
  InfoPtr list = Query(provider, domain, FI_DELIVERY_COMPLETE);
  if (!list) {
    delivery_complete = false;
    list = Query(provider, domain, 0);
  }
  std::vector<Device> devices;
  for (const fi_info* info = list.get(); info != nullptr; info = info->next) {
    if (info->domain_attr->name == nullptr || IsLinkLocal(*info)) continue;
    // The library matches some names loosely.
    if (!domain.empty() && domain != info->domain_attr->name) continue;
    AddDevice(MakeDevice(*info, delivery_complete), devices);
  }
  if (domain.empty()) DropUnasked(devices);
  if (devices.size() > kMaxDomains) devices.resize(kMaxDomains);
  return devices;
}

}  // namespace

Device Copy(const Device& device) {
  return {device.provider,
          device.domain,
          device.fabric,
          device.loopback,
          device.delivery_complete,
          InfoPtr(fi_dupinfo(device.info.get()))};
}

absl::Status FabricError(absl::StatusCode status, int64_t code, const std::string& what) {
  const int positive = static_cast<int>(code < 0 ? -code : code);
  return absl::Status(status, absl::StrCat(what, ": ", fi_strerror(positive)));
}

absl::StatusOr<std::vector<Device>> FindDevices(const std::string& provider, const std::string& domain) {
  std::vector<std::string> names(std::begin(kProviderOrder), std::end(kProviderOrder));
  if (!provider.empty()) names = {provider};
  for (const std::string& name : names) {
    std::vector<Device> devices = DevicesOf(name, domain);
    if (!devices.empty()) return devices;
  }
  return absl::NotFoundError(
      absl::StrCat("no libfabric domain here for provider ", provider.empty() ? "(any)" : provider,
                   " and domain ", domain.empty() ? "(any)" : domain, "; `fi_info` lists what there is"));
}

std::string LibraryVersion() {
  const uint32_t version = fi_version();
  return absl::StrCat(FI_MAJOR(version), ".", FI_MINOR(version));
}

}  // namespace weft::fabric
