// The timed transfer: RMA writes with a sliding window. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/probes/fabric/channel.h"
#include "agent/probes/fabric/distribution.h"
#include "agent/probes/fabric/endpoint.h"
#include "agent/probes/fabric/parameters.h"
#include "agent/probes/fabric/token_bucket.h"

namespace weft::fabric {

// Memory of the peer that may be written.
struct RemoteRegion {
  uint64_t address = 0;
  uint64_t key = 0;
};

// What the writer timed, in ticks: from its first post to the last completion, or, where the provider cannot
// tell remote completion, to the target's word that all has come.
struct WriteTimes {
  int64_t start = 0;
  int64_t end = 0;
  std::vector<double> block_rates;  // bytes per second
};

// Sends messages into the peer's region, each slot's next message as soon as its last one completed. Slots
// refill in order, so that which message lies last in which slot is known to both ends.
class Writer : public CompletionHandler {
 public:
  struct Options {
    uint64_t message_bytes = 0;
    uint64_t slots = 0;
    RemoteRegion target;
    fi_addr_t peer = FI_ADDR_UNSPEC;
    double link_rate = 0;  // bytes per second to pace to; 0 for no pacing
  };
  // `source` has slots * message_bytes.
  Writer(Endpoint& endpoint, const Region& source, const Options& options);

  // Lays down the contents for `seed`, writes `messages` and waits for their completion. kDeadlineExceeded,
  // kUnavailable as Channel.
  absl::StatusOr<WriteTimes> Write(uint64_t messages, uint64_t seed, int64_t deadline);

  void OnCompletion(Operation& operation, size_t length, int error) override;

 private:
  void Fill(uint64_t seed);
  bool WindowHasRoom() const { return posted_ < messages_ && posted_ - completed_ < options_.slots; }
  // Posts what the window, the pace and the provider allow.
  absl::Status PostSome(uint64_t seed, std::optional<TokenBucket>& bucket);
  ssize_t Post(uint64_t slot);
  // How long nothing but a completion can help.
  int64_t Patience(std::optional<TokenBucket>& bucket) const;
  void AdvanceInOrder();

  Endpoint& endpoint_;
  const Region& source_;
  const Options options_;
  std::vector<Operation> operations_;  // by slot
  std::vector<bool> slot_done_;
  uint64_t messages_ = 0;
  uint64_t posted_ = 0;
  uint64_t completed_ = 0;  // all before this one have completed
  bool provider_full_ = false;
  int error_ = 0;
  std::optional<BlockTimes> times_;
};

}  // namespace weft::fabric
