// Which providers and domains (NICs) of this machine can carry the probe. Any thread.
#pragma once

#include <rdma/fabric.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft::fabric {

struct FreeInfo {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using InfoPtr = std::unique_ptr<fi_info, FreeInfo>;

// One domain with the address it will use.
struct Device {
  std::string provider;  // as libfabric names it, e.g. "tcp;ofi_rxm"
  std::string domain;
  std::string fabric;  // name of the network behind it, for tcp the subnet
  bool loopback = false;
  // A write can be told to complete only when its bytes are in the peer's memory.
  bool delivery_complete = false;
  InfoPtr info;
};

// The same device once more, to open another endpoint on it.
Device Copy(const Device& device);

// What went wrong in libfabric with `code` (either sign), on what.
absl::Status FabricError(absl::StatusCode status, int64_t code, const std::string& what);

// The domains to probe in turn, at least one: of `provider`, or where empty of the first that works of efa,
// verbs;ofi_rxm, tcp;ofi_rxm, tcp, shm; only `domain` unless empty. Without a name, loopback is taken only
// when there is nothing else, and bridges never: their ports are probed already. kNotFound, naming both, when
// nothing fits.
absl::StatusOr<std::vector<Device>> FindDevices(const std::string& provider, const std::string& domain);

// "1.17"
std::string LibraryVersion();

}  // namespace weft::fabric
