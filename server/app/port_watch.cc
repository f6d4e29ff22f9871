#include "server/app/port_watch.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace weft {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(5);

int PollFor(int fd, short events, absl::Duration timeout) {
  pollfd entry{fd, events, 0};
  return poll(&entry, 1,
              static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(timeout, absl::Milliseconds(1)))));
}

std::string HostToDial(const std::string& configured) {
  const bool bracketed = configured.size() > 2 && configured.front() == '[';
  const std::string host = bracketed ? configured.substr(1, configured.size() - 2) : configured;
  if (host.empty() || host == "0.0.0.0") return "127.0.0.1";
  if (host == "::") return "::1";
  return host;
}

}  // namespace

absl::Status CheckAccepts(const std::string& host, int port, absl::Duration timeout) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0 || found == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot resolve ", host));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return absl::ErrnoToStatus(errno, "cannot make a socket");
  const absl::Cleanup closer = [fd] { close(fd); };
  if (connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
    int error = errno;
    socklen_t size = sizeof(error);
    if (error == EINPROGRESS) {
      if (PollFor(fd, POLLOUT, timeout) != 1) return absl::DeadlineExceededError("connecting took too long");
      getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat("cannot connect to ", host, ":", port));
  }
  shutdown(fd, SHUT_WR);
  if (PollFor(fd, POLLIN, timeout) != 1)
    return absl::DeadlineExceededError("the port is open but nobody accepts");
  return absl::OkStatus();
}

PortWatch::PortWatch(std::string host, int port, Clock& clock, absl::Duration every)
    : host_(HostToDial(host)),
      port_(port),
      every_(every),
      worker_("port-watch", clock, [this] { return Step(); }) {}

absl::Duration PortWatch::Step() {
  const absl::Status status = CheckAccepts(host_, port_, kTimeout);
  if (status.ok()) {
    failures_ = 0;
  } else {
    ++failures_;
    spdlog::error("the own gRPC port does not answer: {}", std::string(status.message()));
  }
  return every_;
}

}  // namespace weft
