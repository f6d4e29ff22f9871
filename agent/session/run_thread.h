// The one thread on which probes run, one after the other.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "agent/idle/idle_proof.h"
#include "agent/runner/runner.h"
#include "agent/session/transport_watch.h"
#include "base/mutex.h"
#include "weft/v1/probe.pb.h"

namespace weft {

// Thread-safe, but for Start and Stop, which its owner calls.
class RunThread {
 public:
  // All are called on the run thread, without a lock.
  struct Events {
    std::function<void(const std::string& run_id, const std::string& rendezvous)> on_rendezvous;
    std::function<void(v1::Result)> on_result;
    // Rate in bytes per second that stands for this node's link; 0: none. An error fails the run.
    std::function<absl::StatusOr<double>()> emulated_rate;
  };
  // `idle` may be null: then probes that use GPUs are refused.
  RunThread(ProbeRunner& runner, const IdleProof* idle, TransportOptions transport, Events events)
      : runner_(runner), idle_(idle), transport_(std::move(transport)), events_(std::move(events)) {}
  ~RunThread() { Stop(); }

  void Start();
  // Kills a running probe; its result, FAILED "agent stopped" unless it had measured, is given first. Joins.
  void Stop() WEFT_EXCLUDES(mutex_);
  // Runs the probe soon. One at a time: a second one before the first one's result is dropped.
  void Run(v1::ProbeRequest request) WEFT_EXCLUDES(mutex_);
  // Kills the run's probe. Nothing if the run is not there.
  void Cancel(const std::string& run_id) WEFT_EXCLUDES(mutex_);

 private:
  struct Order {
    v1::ProbeRequest request;
    CancelToken cancel;
  };
  void Loop() WEFT_EXCLUDES(mutex_);
  std::shared_ptr<Order> NextOrder() WEFT_EXCLUDES(mutex_);
  v1::Result Execute(Order& order);
  // Only while the node's GPUs are idle.
  v1::Result ExecuteOnGpus(Order& order);
  v1::Result RunProbe(Order& order);

  ProbeRunner& runner_;
  const IdleProof* const idle_;
  const TransportOptions transport_;
  const Events events_;
  Mutex mutex_;
  CondVar cv_;
  std::shared_ptr<Order> order_ WEFT_GUARDED_BY(mutex_);  // until its result was given
  bool taken_ WEFT_GUARDED_BY(mutex_) = false;
  bool stop_ WEFT_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace weft
