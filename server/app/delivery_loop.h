// Sends one receiver's notifications from the outbox, on a thread of its own, so that a receiver that hangs
// holds up nobody else's.
#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "base/worker.h"
#include "server/alert/webhook.h"
#include "server/http/metrics.h"
#include "store/store.h"

namespace weft {

class DeliveryLoop {
 public:
  // `outbox_mutex`: see server/alert/outbox.h.
  DeliveryLoop(Receiver receiver, Store& store, Clock& clock, Mutex& outbox_mutex, MetricCounters& counters);
  void Start() { worker_.Start(); }
  // Cuts an attempt under way.
  void Stop();
  // Something was queued. Any thread.
  void Wake() { worker_.Wake(); }

 private:
  absl::Duration Step();
  absl::StatusOr<std::vector<Delivery>> Pending();
  void Attempt(const Delivery& delivery);

  const Receiver receiver_;
  Store& store_;
  Clock& clock_;
  Mutex& outbox_mutex_;
  MetricCounters& counters_;
  WebhookSender sender_;
  Worker worker_;  // last: stops first
};

}  // namespace weft
