// This participant's way to the others. Two kinds: participant 0 gathers them (Hub), the others are connected
// to it (Spoke). Both never block, and are used by the one thread of the probe that must not hang.
#pragma once

#include <poll.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/probes/nccl/connection.h"
#include "agent/probes/nccl/roster.h"
#include "weft/v1/nccl.pb.h"

namespace weft::nccl {

inline constexpr size_t kSessionBytes = 16;
inline constexpr uint32_t kProtocol = 1;

class Link {
 public:
  virtual ~Link() = default;
  // What to wait for, beside Turn's own times.
  virtual std::vector<pollfd> PollFds() const = 0;
  // Does what there is to do; call it when a descriptor is ready, and every 200 ms. Gives what participant 0
  // told everybody: welcome, go, verdict.
  virtual std::vector<v1::NcclControl> Turn(int64_t now) = 0;
  // Done and failure, to participant 0.
  virtual void Send(const v1::NcclControl& message, int64_t now) = 0;
  // All of the step's work was handed to the GPUs.
  virtual void SayEntered(uint32_t step, int64_t now) = 0;
};

class Hub : public Link {
 public:
  struct Options {
    Roster::Options roster;
    v1::NcclHello own;  // its session is empty
  };
  // Listens unless it is alone.
  static absl::StatusOr<std::unique_ptr<Hub>> Open(Options options, int64_t now);
  ~Hub() override;

  // The rendezvous for the others, serialised; empty when there are none.
  const std::string& offer() const { return offer_; }
  const Roster& roster() const { return roster_; }

  std::vector<pollfd> PollFds() const override;
  std::vector<v1::NcclControl> Turn(int64_t now) override;
  void Send(const v1::NcclControl& message, int64_t now) override;
  void SayEntered(uint32_t step, int64_t now) override;

 private:
  struct Stranger {
    Connection connection;
    int64_t since = 0;
  };
  Hub(Options options, int64_t now);
  void TakeStrangers(int64_t now);
  // True when the stranger is one no more.
  bool Greet(Stranger* stranger, int64_t now);
  void Hear(uint32_t participant, const v1::NcclControl& message, int64_t now);
  void HearAll(int64_t now);
  void Beat(int64_t now);
  void Broadcast(const v1::NcclControl& message);

  const uint32_t world_size_;
  Roster roster_;
  std::string session_;
  std::string offer_;
  Listener listener_;
  std::vector<Stranger> strangers_;
  std::map<uint32_t, Connection> members_;
  int64_t next_beat_ = 0;
};

class Spoke : public Link {
 public:
  // kInvalidArgument for a rendezvous that is none. `hello` without session. Until `give_up` it tries to
  // reach participant 0.
  static absl::StatusOr<std::unique_ptr<Spoke>> Open(const std::string& rendezvous, v1::NcclHello hello,
                                                     int64_t give_up);

  std::vector<pollfd> PollFds() const override;
  // When participant 0 does not come, ends, or speaks nonsense, a verdict that says so.
  std::vector<v1::NcclControl> Turn(int64_t now) override;
  void Send(const v1::NcclControl& message, int64_t now) override;
  void SayEntered(uint32_t step, int64_t now) override;

  // When participant 0 was last heard; 0 before it was.
  int64_t last_heard() const { return last_heard_; }

 private:
  enum class Stage { kIdle, kConnecting, kGreeting, kMet, kOver };
  Spoke(v1::NcclOffer offer, v1::NcclHello hello, int64_t give_up);
  void TryNext(int64_t now);
  void Approach(int64_t now);
  std::vector<v1::NcclControl> Listen(int64_t now);
  v1::NcclControl OwnVerdict(v1::Outcome outcome, const std::string& detail);

  const v1::NcclOffer offer_;
  const v1::NcclHello hello_;
  const int64_t give_up_;
  Stage stage_ = Stage::kIdle;
  size_t next_address_ = 0;
  int64_t stage_until_ = 0;
  std::optional<Connection> connection_;
  v1::NcclBeat beat_;
  int64_t next_beat_ = 0;
  int64_t last_heard_ = 0;
};

}  // namespace weft::nccl
