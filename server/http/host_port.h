// "HOST:PORT" as configuration, agents and clients write it. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace weft {

struct HostPort {
  std::string host;  // without brackets; may be empty
  uint16_t port = 0;
  bool is_ipv6 = false;
  // As it stands in a URL, with brackets around IPv6.
  std::string ToString() const;
};

// Nullopt for anything else: no port, one above 65535, user information, a bare IPv6 address, a path.
std::optional<HostPort> ParseHostPort(absl::string_view text);

}  // namespace weft
