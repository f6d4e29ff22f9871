// What is in this node: network interfaces, RDMA devices, GPUs, versions. From /sys and /proc alone: no
// driver library is loaded into the agent, so a sick device cannot hang it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fleet/node.h"

namespace weft {

struct InventoryOptions {
  std::string root = "/";                     // below which /sys and /proc lie; another folder in tests
  std::string hostname;                       // instead of the kernel's; empty: the kernel's
  std::map<std::string, std::string> labels;  // of the site, as configured
  std::string agent_version;
};

// Reads everything anew. What cannot be read or understood is unknown (empty, 0), never a failure. At most 64
// interfaces (those on a bus first), 64 RDMA devices and 64 GPUs. Any thread.
Node ReadInventory(const std::string& node_id, const InventoryOptions& options);

}  // namespace weft
