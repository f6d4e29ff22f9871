#include "server/alert/address_guard.h"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/address.hpp>
#include <cstring>
#include <optional>

namespace weft {
namespace {

using V4 = boost::asio::ip::address_v4;
using V6 = boost::asio::ip::address_v6;

V4 ToV4(const sockaddr& address) {
  sockaddr_in in;
  std::memcpy(&in, &address, sizeof(in));
  return V4(ntohl(in.sin_addr.s_addr));
}

V6 ToV6(const sockaddr& address) {
  sockaddr_in6 in;
  std::memcpy(&in, &address, sizeof(in));
  V6::bytes_type bytes;
  std::memcpy(bytes.data(), &in.sin6_addr, bytes.size());
  return V6(bytes);
}

bool IsDenied(const V4& v4) {
  const uint32_t a = v4.to_uint();
  const bool link_local = (a >> 16) == 0xa9fe;
  const bool this_network = (a >> 24) == 0;
  const bool multicast_or_reserved = (a >> 28) >= 0xe;
  // Metadata services outside the link-local range.
  constexpr std::array<uint32_t, 3> kMetadata = {
      0x646464c8 /* 100.100.100.200 */, 0xa83f8110 /* 168.63.129.16 */, 0xc00000c0 /* 192.0.0.192 */};
  return link_local || this_network || multicast_or_reserved ||
         std::find(kMetadata.begin(), kMetadata.end(), a) != kMetadata.end();
}

V4 V4At(const V6::bytes_type& bytes, size_t offset) {
  return V4(V4::bytes_type{bytes[offset], bytes[offset + 1], bytes[offset + 2], bytes[offset + 3]});
}

bool StartsWith(const V6& address, const char* prefix, size_t prefix_bytes) {
  const V6::bytes_type a = address.to_bytes();
  const V6::bytes_type b = boost::asio::ip::make_address_v6(prefix).to_bytes();
  return std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(prefix_bytes), b.begin());
}

// The IPv4 address that an IPv6 one stands for.
std::optional<V4> Embedded(const V6& v6) {
  const V6::bytes_type bytes = v6.to_bytes();
  if (v6.is_v4_mapped() || StartsWith(v6, "64:ff9b::", 12)) return V4At(bytes, 12);
  if (StartsWith(v6, "2002::", 2)) return V4At(bytes, 2);
  if (StartsWith(v6, "::", 12) && !v6.is_loopback()) return V4At(bytes, 12);
  return std::nullopt;
}

bool IsDenied(const V6& v6) {
  if (const std::optional<V4> v4 = Embedded(v6)) return IsDenied(*v4);
  return v6.is_link_local() || v6.is_multicast() || StartsWith(v6, "fd00:ec2::254", 16) ||
         StartsWith(v6, "fd20:ce::254", 16);
}

}  // namespace

bool IsDeniedAddress(const sockaddr& address) {
  if (address.sa_family == AF_INET) return IsDenied(ToV4(address));
  if (address.sa_family == AF_INET6) return IsDenied(ToV6(address));
  return true;
}

std::string AddressText(const sockaddr& address) {
  if (address.sa_family == AF_INET) return ToV4(address).to_string();
  if (address.sa_family == AF_INET6) return ToV6(address).to_string();
  return "an address of another family";
}

}  // namespace weft
