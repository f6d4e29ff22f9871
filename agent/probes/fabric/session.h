// One pair of domains from the handshake to the farewell. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "agent/probes/fabric/bandwidth.h"
#include "agent/probes/fabric/channel.h"
#include "agent/probes/fabric/endpoint.h"
#include "agent/probes/fabric/parameters.h"
#include "weft/v1/probe.pb.h"

namespace weft::fabric {

class Session {
 public:
  struct Options {
    uint32_t rank = 0;
    int64_t deadline = 0;      // ticks
    double link_rate = 0;      // own emulated link in bytes per second; 0 for none
    std::string token;         // of the run, kSessionBytes
    std::string peer_address;  // rank 1 only: that of rank 0
  };
  using PhaseSink = std::function<void(const char* phase)>;

  // The endpoint and the parameters outlive it.
  Session(Endpoint& endpoint, const Parameters& parameters, Options options, PhaseSink on_phase);

  // Measures all there is to measure on this pair. On failure tells the peer, as far as it still listens.
  // Errors as Channel, and kNotFound when the peer never came, kDataLoss when contents are wrong,
  // kFailedPrecondition when the two ends were told different things.
  absl::Status Run();

  const std::vector<v1::Measurement>& measurements() const { return measurements_; }
  bool emulated_link() const { return link_rate_ > 0; }

 private:
  absl::Status RunSteps();
  absl::Status Meet();
  absl::Status MeetAsRank0();
  absl::Status MeetAsRank1();
  absl::Status SendHello();
  ControlMessage Introduce(ControlType type) const;
  absl::Status TakeIntroduction(const ControlMessage& message);
  absl::Status RunTransfer(const Transfer& transfer, uint32_t writer_rank);
  absl::Status WriteTo(const Transfer& transfer);
  absl::StatusOr<WriteTimes> TimedWrite(Writer& writer, const Transfer& transfer);
  absl::Status BeWritten(const Transfer& transfer);
  absl::Status RunLatency();
  // Tells the peer the address of another endpoint of ours and inserts its into that.
  absl::StatusOr<fi_addr_t> ExchangeAddresses(Endpoint& mine);
  absl::Status Part();
  void TellAbort(const absl::Status& why);
  absl::Status Tell(ControlType type, uint64_t value = 0);
  absl::StatusOr<ControlMessage> Hear(ControlType type);
  v1::Measurement& AddMeasurement(v1::Metric metric, uint64_t message_bytes);

  Endpoint& endpoint_;
  const Parameters& parameters_;
  const Options options_;
  const PhaseSink on_phase_;
  std::unique_ptr<Channel> channel_;
  std::optional<Region> region_;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  RemoteRegion peer_region_;
  double link_rate_ = 0;  // agreed
  uint32_t step_ = 0;     // rises with each transfer, alike at both ends
  std::vector<v1::Measurement> measurements_;
};

}  // namespace weft::fabric
