#include "server/app/delivery_loop.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "server/alert/outbox.h"
#include "spdlog/spdlog.h"

namespace weft {
namespace {

constexpr absl::Duration kAtLeastEvery = absl::Seconds(5);

DeliveryOutcome OutcomeOf(DeliveryState state) {
  switch (state) {
    case DeliveryState::kDelivered:
      return DeliveryOutcome::kDelivered;
    case DeliveryState::kDead:
      return DeliveryOutcome::kDead;
    case DeliveryState::kDropped:
      return DeliveryOutcome::kDropped;
    case DeliveryState::kPending:
      break;
  }
  return DeliveryOutcome::kRetried;
}

}  // namespace

DeliveryLoop::DeliveryLoop(Receiver receiver, Store& store, Clock& clock, Mutex& outbox_mutex,
                           MetricCounters& counters)
    : receiver_(std::move(receiver)),
      store_(store),
      clock_(clock),
      outbox_mutex_(outbox_mutex),
      counters_(counters),
      worker_("deliver", clock, [this] { return Step(); }) {}

void DeliveryLoop::Stop() {
  sender_.Cancel();
  worker_.Stop();
}

absl::StatusOr<std::vector<Delivery>> DeliveryLoop::Pending() {
  absl::StatusOr<std::vector<Delivery>> pending = store_.PendingDeliveries();
  if (pending.ok()) {
    pending->erase(
        std::remove_if(pending->begin(), pending->end(),
                       [&](const Delivery& delivery) { return delivery.receiver != receiver_.name; }),
        pending->end());
  }
  return pending;
}

absl::Duration DeliveryLoop::Step() {
  absl::StatusOr<std::vector<Delivery>> pending = Pending();
  if (!pending.ok()) {
    spdlog::error("outbox not read: {}", std::string(pending.status().message()));
    return kAtLeastEvery;
  }
  const std::vector<Delivery> due = Due(*pending, clock_.Now());
  for (const Delivery& delivery : due) Attempt(delivery);
  if (!due.empty()) pending = Pending();
  return pending.ok() ? std::min(kAtLeastEvery, UntilDue(*pending, clock_.Now())) : kAtLeastEvery;
}

void DeliveryLoop::Attempt(const Delivery& delivery) {
  {
    MutexLock lock(outbox_mutex_);
    // kNotFound: it became needless in the meantime.
    if (!store_.UpdateDelivery(BeginAttempt(delivery)).ok()) return;
  }
  const AttemptResult result = sender_.Send(receiver_, delivery, clock_.Now());
  const Delivery after = AfterAttempt(delivery, result, clock_.Now());
  counters_.CountDelivery(receiver_.name, OutcomeOf(after.state), clock_.Now());
  if (after.state != DeliveryState::kDelivered) {
    spdlog::warn("notification {} to {}: attempt {} failed: {}", delivery.id, receiver_.name, after.attempts,
                 after.last_error);
  }
  const absl::Status status = store_.UpdateDelivery(after);
  if (!status.ok() && !absl::IsNotFound(status)) {
    spdlog::error("notification {}: its outcome was not stored, it may be sent again: {}", delivery.id,
                  std::string(status.message()));
  }
}

}  // namespace weft
