#include "agent/probes/nccl/connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace weft::nccl {
namespace {

constexpr size_t kMaxAddresses = 32;
constexpr int kBacklog = 128;

void SetNoDelay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool ParseAddress(const std::string& text, sockaddr_storage* out, socklen_t* size) {
  const size_t colon = text.rfind(':');
  uint32_t port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(text.substr(colon + 1), &port) || port == 0 ||
      port > 65535)
    return false;
  std::string host = text.substr(0, colon);
  std::memset(out, 0, sizeof *out);
  auto* const v4 = reinterpret_cast<sockaddr_in*>(out);
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(out);
  if (inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(port));
    *size = sizeof *v4;
    return true;
  }
  if (host.size() < 2 || host.front() != '[' || host.back() != ']') return false;
  host = host.substr(1, host.size() - 2);
  std::memset(out, 0, sizeof *out);
  if (inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) != 1) return false;
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(static_cast<uint16_t>(port));
  *size = sizeof *v6;
  return true;
}

// Empty for addresses that no other machine reaches.
std::string HostText(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text.data(), text.size());
    return text.data();
  }
  if (address->sa_family != AF_INET6) return "";
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  if (IN6_IS_ADDR_LINKLOCAL(&v6)) return "";
  inet_ntop(AF_INET6, &v6, text.data(), text.size());
  return absl::StrCat("[", text.data(), "]");
}

std::set<std::string> DefaultRouteInterfaces() {
  std::set<std::string> found;
  std::ifstream in("/proc/net/route");
  std::string line, name, destination;
  while (std::getline(in, line))
    if (std::istringstream(line) >> name >> destination && destination == "00000000") found.insert(name);
  return found;
}

// NCCL_SOCKET_IFNAME: prefixes, or exact names after '='; a list after '^' excludes and says nothing of
// order.
bool NcclPrefers(const std::string& interface) {
  const char* const setting = getenv("NCCL_SOCKET_IFNAME");
  if (setting == nullptr || *setting == '\0' || *setting == '^') return false;
  const bool exact = *setting == '=';
  for (const absl::string_view name : absl::StrSplit(setting + (exact ? 1 : 0), ','))
    if (exact ? interface == name : absl::StartsWith(interface, name)) return true;
  return false;
}

bool IsContainerBridge(const std::string& interface) {
  constexpr const char* kPrefixes[] = {"docker", "veth", "virbr", "br-", "cni", "flannel", "cali"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](const char* prefix) { return absl::StartsWith(interface, prefix); });
}

enum Preference { kNamed, kDefaultRoute, kOther, kBridge, kLoopback };

Preference PreferenceOf(const ifaddrs& entry, const std::set<std::string>& default_route) {
  if ((entry.ifa_flags & IFF_LOOPBACK) != 0) return kLoopback;
  if (NcclPrefers(entry.ifa_name)) return kNamed;
  if (default_route.contains(entry.ifa_name)) return kDefaultRoute;
  return IsContainerBridge(entry.ifa_name) ? kBridge : kOther;
}

}  // namespace

Connection::Connection(int fd) : fd_(fd) { SetNoDelay(fd); }

Connection::Connection(Connection&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      out_(std::move(other.out_)),
      in_(std::move(other.in_)),
      ended_(other.ended_) {}

Connection& Connection::operator=(Connection&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(out_, other.out_);
  std::swap(in_, other.in_);
  std::swap(ended_, other.ended_);
  return *this;
}

Connection::~Connection() {
  if (fd_ >= 0) close(fd_);
}

short Connection::events() const { return static_cast<short>(out_.empty() ? POLLIN : POLLIN | POLLOUT); }

void Connection::Send(const v1::NcclControl& message) {
  out_ += EncodeFrame(message.SerializeAsString());
  Flush();
}

void Connection::Flush() {
  while (!out_.empty() && !ended_) {
    const ssize_t sent = send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN || errno == EINPROGRESS))
      return;
    if (sent < 0) {
      ended_ = true;
      return;
    }
    out_.erase(0, static_cast<size_t>(sent));
  }
}

std::vector<v1::NcclControl> Connection::Receive(size_t max_pending) {
  std::vector<v1::NcclControl> messages;
  std::array<char, 16 << 10> buffer;
  while (!ended_) {
    const ssize_t got = recv(fd_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return messages;
    ended_ = got <= 0;
    if (ended_) return messages;
    in_.Append({buffer.data(), static_cast<size_t>(got)});
    while (!ended_) {
      const absl::StatusOr<std::optional<std::string>> frame = in_.Next();
      if (frame.ok() && !frame->has_value()) break;
      v1::NcclControl message;
      ended_ = !frame.ok() || !message.ParseFromString(**frame);
      if (!ended_) messages.push_back(std::move(message));
    }
    ended_ = ended_ || in_.pending_bytes() > max_pending;
  }
  return messages;
}

bool Connection::CheckConnected() {
  pollfd ready = {fd_, POLLOUT, 0};
  if (poll(&ready, 1, 0) != 1) return false;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
  ended_ = ended_ || error != 0;
  return !ended_;
}

absl::StatusOr<Listener> Listen() {
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_any;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int off = 0;
  if (fd >= 0) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (fd < 0 || bind(fd, any, size) != 0) {
    // A machine without IPv6.
    if (fd >= 0) close(fd);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    auto* const v4 = reinterpret_cast<sockaddr_in*>(&address);
    std::memset(&address, 0, sizeof address);
    v4->sin_family = AF_INET;
    size = sizeof *v4;
    if (fd < 0 || bind(fd, any, size) != 0)
      return absl::ErrnoToStatus(errno, "cannot open a port for the other participants");
  }
  if (listen(fd, kBacklog) != 0 || getsockname(fd, any, &size) != 0)
    return absl::ErrnoToStatus(errno, "cannot listen for the other participants");
  // The port is at the same place in both families.
  return Listener{fd, ntohs(address.sin6_port)};
}

std::optional<Connection> Accept(const Listener& listener) {
  const int fd = accept4(listener.fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return std::nullopt;
  return Connection(fd);
}

absl::StatusOr<Connection> Connect(const std::string& address) {
  sockaddr_storage to;
  socklen_t size = 0;
  if (!ParseAddress(address, &to, &size))
    return absl::InvalidArgumentError(absl::StrCat("rendezvous of participant 0: malformed address"));
  const int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return absl::ErrnoToStatus(errno, "cannot make a socket");
  Connection connection(fd);
  // What comes of it shows in CheckConnected.
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), size) != 0 && errno != EINPROGRESS)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot connect to ", address));
  return connection;
}

std::vector<std::string> OwnAddresses(uint16_t port) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::set<std::string> default_route = DefaultRouteInterfaces();
  std::vector<std::pair<Preference, std::string>> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const std::string host = HostText(entry->ifa_addr);
    if (!host.empty()) found.emplace_back(PreferenceOf(*entry, default_route), absl::StrCat(host, ":", port));
  }
  freeifaddrs(list);
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> addresses;
  for (const auto& [preference, address] : found) {
    const bool last_resort = preference == kLoopback && !addresses.empty();
    if (!last_resort && addresses.size() < kMaxAddresses) addresses.push_back(address);
  }
  return addresses;
}

}  // namespace weft::nccl
