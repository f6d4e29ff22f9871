#include "server/http/host_port.h"

#include <boost/url/authority_view.hpp>
#include <boost/url/parse.hpp>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace weft {

std::string HostPort::ToString() const {
  return is_ipv6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

std::optional<HostPort> ParseHostPort(absl::string_view text) {
  const auto authority = boost::urls::parse_authority({text.data(), text.size()});
  if (!authority || authority->has_userinfo()) return std::nullopt;
  uint32_t port = 0;
  const auto digits = authority->port();
  if (!absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()), &port) ||
      port > std::numeric_limits<uint16_t>::max()) {
    return std::nullopt;
  }
  const std::string host = authority->host_address();
  return HostPort{host, static_cast<uint16_t>(port), authority->host_type() == boost::urls::host_type::ipv6};
}

}  // namespace weft
