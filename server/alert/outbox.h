// The outbox: which notifications may be tried now, and what an attempt means for its row. Pure. Any thread.
//
// The life of a delivery, in the loop that owns the senders (one per receiver, so that one that hangs holds
// up nobody else's):
//     for (const Delivery& due : Due(pending, now)) {
//       { lock L;  if store.UpdateDelivery(BeginAttempt(due)) fails: skip this one; }
//       const AttemptResult result = sender.Send(receiver, due, now);
//       store.UpdateDelivery(AfterAttempt(due, result, now));      // kNotFound: dropped meanwhile, fine
//     }
// BeginAttempt is written first, so that a crash or a drop in the middle of an attempt leaves a row that says
// "may have been accepted", and the resolve is not withheld. Lock L is also held from reading the outbox to
// committing the changes of Reconcile (episodes.h): otherwise an attempt could begin between the two and the
// incident it opens would never be closed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "fleet/finding.h"

namespace weft {

// What one attempt came to.
struct AttemptResult {
  int status = 0;           // final HTTP status, 0 if none came
  std::string retry_after;  // the header as it came; empty if none
  bool maybe_sent = false;  // no final status although (part of) the request went out
  bool denied = false;      // by the receiver's configuration or the address guard; no byte was sent
  std::string error;        // for people; no secrets, nothing from the response's body; empty when accepted
};

enum class AttemptClass {
  kAccepted,   // 2xx
  kRetry,      // 408, 425, 429, 5xx, time-out, reset, name resolution, TLS: the ladder
  kSlowRetry,  // 401, 403, 404, 3xx, other 4xx, denied: someone must mend the configuration; every 15 minutes
  kDead,       // 400, 413, 422: this body will never be accepted
  kGone,       // 410: the receiver asks not to be sent anything any more; this delivery is dead
};

AttemptClass Classify(const AttemptResult& result);

// Whether the receiver may have acted on the attempt although it is not known to have accepted it: no answer
// after the request went out, or a gateway's 502 or 504. Other statuses are the receiver's own word that it
// did not.
bool OutcomeUnknown(const AttemptResult& result);

// Waiting time of a Retry-After header: seconds or an HTTP date (all three forms of RFC 9110). At least 0, at
// most 1 hour; nullopt if it is neither.
std::optional<absl::Duration> ParseRetryAfter(absl::string_view header, absl::Time now);

// Wait before the next attempt after `attempts` (from 1) have failed: 1, 2, 5, 10, 20, 30, 60 s, then 60 s
// +-20 %; the spread is a function of `delivery_id` and `attempts`.
absl::Duration LadderDelay(uint32_t attempts, absl::string_view delivery_id);

inline constexpr absl::Duration kSlowRetryDelay = absl::Minutes(15);
inline constexpr absl::Duration kMaxRetryAfter = absl::Hours(1);
// Given up when this old, after no fewer attempts than this: neither a server that was off for days nor a
// clock that jumped ahead throws notifications away untried.
inline constexpr absl::Duration kGiveUpAfter = absl::Hours(72);
inline constexpr uint32_t kGiveUpAttempts = 20;

// The deliveries that may be tried now, at most one per lane. A lane is (receiver, episode); only its lowest
// pending sequence is ever offered, so that order within it holds; lanes do not wait for each other.
// Receivers take turns, oldest first within a receiver. Rows that are not pending are ignored. A not_before
// further ahead than any wait this file imposes was written before the wall clock stepped back, and does not
// count.
std::vector<Delivery> Due(const std::vector<Delivery>& pending, absl::Time now);
// How long until Due offers something that it does not offer now; InfiniteDuration if that needs a new row.
absl::Duration UntilDue(const std::vector<Delivery>& pending, absl::Time now);

// What to write before an attempt: one attempt more, outcome unknown.
Delivery BeginAttempt(Delivery delivery);
// What to write after it. `delivery` is as it was before BeginAttempt. Pending rows get the time of their
// next attempt; outcome_unknown, once true, stays.
Delivery AfterAttempt(Delivery delivery, const AttemptResult& result, absl::Time now);

}  // namespace weft
