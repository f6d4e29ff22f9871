// Which addresses notifications are never sent to, whatever a receiver's name resolves to. Pure. Any thread.
#pragma once

#include <sys/socket.h>

#include <string>

namespace weft {

// True for link-local addresses (169.254.0.0/16, fe80::/10), where clouds serve credentials to whoever asks,
// their metadata addresses elsewhere, unspecified addresses, multicast and broadcast, and for IPv6 forms of
// all of these IPv4 addresses (mapped, compatible, NAT64, 6to4). Also true for families other than IPv4 and
// IPv6. Loopback and private addresses are allowed: receivers are the operator's own configuration, and
// on-premises ones are private by nature.
bool IsDeniedAddress(const sockaddr& address);

// "192.0.2.1" or "2001:db8::1".
std::string AddressText(const sockaddr& address);

}  // namespace weft
