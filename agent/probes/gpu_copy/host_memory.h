// Memory of the host on a NUMA node of choice.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft::gpu_copy {

// "0-1,4" -> {0, 1, 4}: the kernel's lists. Empty for anything else. Pure.
std::vector<int> ParseNodeList(absl::string_view text);

// Nodes that have memory; empty where the kernel knows none.
std::vector<int> NodesWithMemory();

// Pages that are really there. One thread.
class HostMemory {
 public:
  // On `node` alone, or anywhere. kPermissionDenied where this process may not choose (some containers).
  static absl::StatusOr<HostMemory> Allocate(size_t bytes, std::optional<int> node);
  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&&) = delete;
  ~HostMemory();
  void* data() const { return data_; }
  size_t size() const { return bytes_; }

 private:
  HostMemory(void* data, size_t bytes) : data_(data), bytes_(bytes) {}
  void* data_;
  size_t bytes_;
};

}  // namespace weft::gpu_copy
