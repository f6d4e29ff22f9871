#include "agent/runner/output_tail.h"

#include <utility>

namespace weft {

void OutputTail::Append(absl::string_view bytes) {
  if (bytes.size() > max_bytes_) bytes.remove_prefix(bytes.size() - max_bytes_);
  bytes_.append(bytes.data(), bytes.size());
  if (bytes_.size() > 2 * max_bytes_) bytes_.erase(0, bytes_.size() - max_bytes_);
}

std::string OutputTail::Take() {
  if (bytes_.size() > max_bytes_) bytes_.erase(0, bytes_.size() - max_bytes_);
  return std::exchange(bytes_, {});
}

}  // namespace weft
