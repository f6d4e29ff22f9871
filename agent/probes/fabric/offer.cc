#include "agent/probes/fabric/offer.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/probes/fabric/control_message.h"

namespace weft::fabric {
namespace {

constexpr absl::string_view kFirstLine = "weft-fabric 1";
constexpr size_t kMaxNameBytes = 64;

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("rendezvous of rank 0: ", what));
}

bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
}

// Names go between spaces; libfabric could in theory give one with a space in it.
std::string Name(absl::string_view name) {
  std::string out(name.substr(0, kMaxNameBytes));
  for (char& c : out)
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) c = '_';
  return out.empty() ? "-" : out;
}

// Even number of hex digits -> bytes; empty string when it is not.
std::string FromHex(absl::string_view hex, size_t max_bytes) {
  if (hex.empty() || hex.size() % 2 != 0 || hex.size() / 2 > max_bytes) return "";
  const bool good = std::all_of(hex.begin(), hex.end(),
                                [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); });
  return good ? absl::HexStringToBytes(hex) : "";
}

absl::Status TakeDomain(const std::vector<absl::string_view>& words, Offer& offer) {
  if (words.size() != 4 || !IsName(words[1]) || !IsName(words[2])) return Malformed("malformed domain line");
  if (offer.domains.size() == kMaxDomains) return Malformed("more than 16 domains");
  const std::string address = FromHex(words[3], kMaxAddressBytes);
  if (address.empty()) return Malformed("malformed address");
  offer.domains.push_back({std::string(words[1]), std::string(words[2]), address});
  return absl::OkStatus();
}

absl::Status TakeLine(absl::string_view line, Offer& offer) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  if (words[0] == "domain") return TakeDomain(words, offer);
  if (words.size() != 2) return Malformed("malformed line");
  if (words[0] == "provider" && IsName(words[1])) {
    offer.provider = std::string(words[1]);
    return absl::OkStatus();
  }
  if (words[0] == "session") {
    offer.session = FromHex(words[1], kSessionBytes);
    return absl::OkStatus();
  }
  return Malformed("unknown line");
}

}  // namespace

std::string EncodeOffer(const Offer& offer) {
  std::string text = absl::StrCat(kFirstLine, "\nprovider ", Name(offer.provider), "\nsession ",
                                  absl::BytesToHexString(offer.session), "\n");
  for (const OfferedDomain& d : offer.domains)
    absl::StrAppend(&text, "domain ", Name(d.domain), " ", Name(d.fabric), " ",
                    absl::BytesToHexString(d.address), "\n");
  return text;
}

absl::StatusOr<Offer> DecodeOffer(absl::string_view text) {
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  if (lines.empty() || lines[0] != kFirstLine)
    return Malformed("not of this version; both ends need the same weft-probe-fabric");
  Offer offer;
  for (size_t i = 1; i < lines.size(); ++i)
    if (absl::Status s = TakeLine(lines[i], offer); !s.ok()) return s;
  if (offer.provider.empty() || offer.session.size() != kSessionBytes || offer.domains.empty())
    return Malformed("provider, session or domain is missing");
  return offer;
}

}  // namespace weft::fabric
