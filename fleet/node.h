// A machine of the fleet as an agent describes it. Plain values; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace weft {

// A network interface or RDMA device.
struct Nic {
  std::string name;                    // kernel name, "mlx5_0" or "eth0"
  std::string driver;                  // empty if unknown
  uint64_t rate_bytes_per_second = 0;  // nominal; 0 if unknown
  std::string link_layer;              // "InfiniBand", "Ethernet" or empty
  std::string state;                   // as the kernel says it
  std::string pci_address;             // empty for a virtual interface
  bool operator==(const Nic&) const = default;
};

struct Gpu {
  std::string pci_address;
  std::string uuid;        // empty without a driver
  std::string model;       // empty if unknown
  std::string facts = {};  // a serialised weft.v1.GpuFacts, for people alone; empty without a driver
  bool operator==(const Gpu&) const = default;
};

// How current the facts of the GPUs are.
struct GpuSource {
  absl::Time read_time = absl::InfinitePast();  // agent's clock; InfinitePast: never
  std::string problem;                          // why there are none or only old ones
  bool operator==(const GpuSource&) const = default;
};

struct Node {
  std::string id;                             // UUID made once by the agent; survives hostname changes
  std::string hostname;                       // current; a label, never a key
  std::map<std::string, std::string> labels;  // site labels: rack, leaf, cohort, …
  std::vector<Nic> nics;
  std::vector<Gpu> gpus;
  std::map<std::string, std::string> versions;  // by component
  GpuSource gpu_source = {};
  bool operator==(const Node&) const = default;
};

// A node and when it was heard of, as the store keeps it.
struct NodeRecord {
  Node node;
  std::string boot_id;
  absl::Time first_seen = absl::InfinitePast();
  absl::Time last_seen = absl::InfinitePast();         // server clock; stored at hello and now and then
  absl::Time last_success = absl::InfinitePast();      // plan time of its last OK run
  absl::Duration clock_offset = absl::ZeroDuration();  // agent wall clock minus server wall clock
  uint64_t spool_lost_records = 0;                     // as the agent last reported
};

}  // namespace weft
