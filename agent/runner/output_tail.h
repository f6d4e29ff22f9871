// The last bytes of a stream of any length.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace weft {

// One thread. Holds at most twice `max_bytes`.
class OutputTail {
 public:
  explicit OutputTail(size_t max_bytes) : max_bytes_(max_bytes) {}
  void Append(absl::string_view bytes);
  // The last `max_bytes` at most, as they came.
  std::string Take();

 private:
  const size_t max_bytes_;
  std::string bytes_;
};

}  // namespace weft
