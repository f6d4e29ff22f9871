// Rank 0's rendezvous: how rank 1 reaches it. Any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft::fabric {

// One domain (NIC) of rank 0.
struct OfferedDomain {
  std::string domain;   // its name, "mlx5_0" or "eth0"
  std::string fabric;   // libfabric's name of the network behind it, for tcp the subnet
  std::string address;  // endpoint address as bytes
};

struct Offer {
  std::string provider;
  std::string session;  // kSessionBytes random bytes
  std::vector<OfferedDomain> domains;
};

inline constexpr size_t kMaxDomains = 16;
inline constexpr size_t kMaxAddressBytes = 128;

// Lines of text. Usual addresses of kMaxDomains domains stay below the 4 KiB that a rendezvous may have; the
// caller checks.
std::string EncodeOffer(const Offer& offer);
// kInvalidArgument, saying what is wrong. Trusts nothing.
absl::StatusOr<Offer> DecodeOffer(absl::string_view text);

}  // namespace weft::fabric
