// Control messages and pings between the two ends, over the probed endpoint itself. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/probes/fabric/control_message.h"
#include "agent/probes/fabric/endpoint.h"

namespace weft::fabric {

// All deadlines in ticks. Errors of all calls:
//   kDeadlineExceeded  the deadline passed
//   kUnavailable       libfabric says that the peer cannot be reached
//   kAborted           the peer gave up; the message says why
//   kInvalidArgument   the peer (or a flood of strangers) does not keep to the protocol
class Channel : public CompletionHandler {
 public:
  static absl::StatusOr<std::unique_ptr<Channel>> Open(Endpoint& endpoint, std::string session);

  void set_peer(fi_addr_t peer) { peer_ = peer; }
  // Waits until the message has left.
  absl::Status Send(const ControlMessage& message, int64_t deadline);
  // The next message of this session. Malformed ones and those of other sessions are dropped and counted,
  // and only too many of them end the wait: anybody on the network may send some.
  absl::StatusOr<ControlMessage> Receive(int64_t deadline);
  // Receive, and it must be this one.
  absl::StatusOr<ControlMessage> Expect(ControlType type, uint32_t step, int64_t deadline);

  // 8 bytes. The wait spins for `spin` nanoseconds before it gives the core to others.
  absl::Status SendPing(uint64_t number, int64_t deadline);
  absl::Status ExpectPing(uint64_t number, int64_t spin, int64_t deadline);

  void OnCompletion(Operation& operation, size_t length, int error) override;

 private:
  Channel(Endpoint& endpoint, std::string session) : endpoint_(endpoint), session_(std::move(session)) {}
  absl::Status PostReceive(uint64_t number);
  absl::Status RepostReceives();
  absl::Span<uint8_t> Buffer(uint64_t number) const;
  void OnReceive(uint64_t number, size_t length, int error);
  // Posts the send buffer, retrying while the provider is busy, e.g. connecting.
  absl::Status PostSend(int64_t deadline);
  absl::Status AwaitSend(int64_t deadline);

  Endpoint& endpoint_;
  const std::string session_;
  std::optional<Region> region_;  // receive buffers, then the send buffer
  std::vector<Operation> operations_;
  std::vector<uint64_t> to_repost_;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  bool send_pending_ = false;
  int send_error_ = 0;
  int receive_error_ = 0;
  uint32_t dropped_ = 0;
  std::string last_drop_;
  std::deque<ControlMessage> inbox_;
  std::deque<uint64_t> pings_;
};

}  // namespace weft::fabric
