// One TCP connection for NcclControl frames, and the ways to get one. One thread; nothing here blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/framing.h"
#include "weft/v1/nccl.pb.h"

namespace weft::nccl {

class Connection {
 public:
  // Owns `fd`, a socket that is or is getting connected.
  explicit Connection(int fd);
  Connection(Connection&& other) noexcept;
  Connection& operator=(Connection&& other) noexcept;
  ~Connection();

  int fd() const { return fd_; }
  // What to poll for.
  short events() const;
  void Send(const v1::NcclControl& message);
  // Writes what it can.
  void Flush();
  // Takes what came. A stranger's bytes are dropped early: see `max_pending`.
  std::vector<v1::NcclControl> Receive(size_t max_pending);
  // The peer closed, the network failed, or what came was no frame of ours.
  bool ended() const { return ended_; }
  // Its socket got connected; only for one that Connect made.
  bool CheckConnected();

 private:
  int fd_;
  std::string out_;
  FrameDecoder in_;
  bool ended_ = false;
};

// A listening socket on all addresses of this machine, IPv6 and IPv4, with a port of the kernel's choice.
struct Listener {
  int fd = -1;
  uint16_t port = 0;
};
absl::StatusOr<Listener> Listen();
// nullopt when nobody waits.
std::optional<Connection> Accept(const Listener& listener);

// Begins to connect to "10.0.0.1:41234" or "[fd00::1]:41234". kInvalidArgument for anything else.
absl::StatusOr<Connection> Connect(const std::string& address);

// This machine's addresses with `port`, best first: on interfaces that NCCL_SOCKET_IFNAME names, then on that
// of the default route, then the rest, those of containers' bridges last. Loopback only when there is nothing
// else. At most 32.
std::vector<std::string> OwnAddresses(uint16_t port);

}  // namespace weft::nccl
