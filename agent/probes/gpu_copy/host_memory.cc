#include "agent/probes/gpu_copy/host_memory.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"

namespace weft::gpu_copy {
namespace {

constexpr int kMaxNodes = 1024;
constexpr size_t kBitsPerWord = 8 * sizeof(unsigned long);

}  // namespace

std::vector<int> ParseNodeList(absl::string_view text) {
  std::vector<int> nodes;
  for (const absl::string_view part :
       absl::StrSplit(absl::StripAsciiWhitespace(text), ',', absl::SkipEmpty())) {
    const std::vector<absl::string_view> ends = absl::StrSplit(part, '-');
    int first = 0, last = 0;
    const bool good = ends.size() <= 2 && absl::SimpleAtoi(ends.front(), &first) &&
                      absl::SimpleAtoi(ends.back(), &last) && first >= 0 && first <= last && last < kMaxNodes;
    if (!good) return {};
    for (int node = first; node <= last; ++node) nodes.push_back(node);
  }
  return nodes;
}

std::vector<int> NodesWithMemory() {
  const absl::StatusOr<std::string> text = ReadFile("/sys/devices/system/node/has_memory");
  return text.ok() ? ParseNodeList(*text) : std::vector<int>();
}

absl::StatusOr<HostMemory> HostMemory::Allocate(size_t bytes, std::optional<int> node) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot allocate ", bytes, " bytes"));
  HostMemory memory(data, bytes);
  if (node) {
    std::array<unsigned long, kMaxNodes / kBitsPerWord> mask = {};
    mask[static_cast<size_t>(*node) / kBitsPerWord] = 1UL << (static_cast<size_t>(*node) % kBitsPerWord);
    // The kernel counts one bit less than it is told.
    if (syscall(SYS_mbind, data, bytes, MPOL_BIND, mask.data(), kMaxNodes + 1UL, MPOL_MF_STRICT) != 0)
      return absl::PermissionDeniedError(absl::StrCat("cannot choose memory of NUMA node ", *node));
  }
  std::memset(data, 0, bytes);
  return memory;
}

HostMemory::HostMemory(HostMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

HostMemory::~HostMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace weft::gpu_copy
