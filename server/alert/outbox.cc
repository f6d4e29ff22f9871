#include "server/alert/outbox.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/crc32c.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr size_t kMaxErrorBytes = 512;
constexpr absl::Duration kMaxWait = absl::Minutes(61);  // kMaxRetryAfter and a little more

bool IsOneOf(int status, std::initializer_list<int> statuses) {
  return std::find(statuses.begin(), statuses.end(), status) != statuses.end();
}

// Lane by lane the pending delivery with the lowest sequence.
std::vector<const Delivery*> LaneHeads(const std::vector<Delivery>& pending) {
  std::map<std::pair<absl::string_view, absl::string_view>, const Delivery*> heads;
  for (const Delivery& delivery : pending) {
    if (delivery.state != DeliveryState::kPending) continue;
    const Delivery*& head = heads[{delivery.receiver, delivery.episode_id}];
    if (head == nullptr || delivery.sequence < head->sequence) head = &delivery;
  }
  std::vector<const Delivery*> out;
  out.reserve(heads.size());
  for (const auto& [lane, head] : heads) out.push_back(head);
  return out;
}

absl::Duration WaitOf(const Delivery& delivery, absl::Time now) {
  const absl::Duration wait = delivery.not_before - now;
  return wait > kMaxWait ? absl::ZeroDuration() : std::max(wait, absl::ZeroDuration());
}

// Receivers take turns: the first of each, then the second of each.
std::vector<Delivery> TakeTurns(std::vector<const Delivery*> due) {
  std::sort(due.begin(), due.end(), [](const Delivery* a, const Delivery* b) {
    return std::tie(a->create_time, a->id) < std::tie(b->create_time, b->id);
  });
  std::map<absl::string_view, size_t> taken;
  std::vector<std::pair<size_t, const Delivery*>> turns;
  for (const Delivery* delivery : due) turns.emplace_back(taken[delivery->receiver]++, delivery);
  std::stable_sort(turns.begin(), turns.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Delivery> out;
  out.reserve(turns.size());
  for (const auto& [turn, delivery] : turns) out.push_back(*delivery);
  return out;
}

absl::Duration RetryDelay(const Delivery& delivery, const AttemptResult& result, absl::Time now) {
  const absl::Duration own = Classify(result) == AttemptClass::kSlowRetry
                                 ? kSlowRetryDelay
                                 : LadderDelay(delivery.attempts, delivery.id);
  return std::max(own, ParseRetryAfter(result.retry_after, now).value_or(absl::ZeroDuration()));
}

bool GivesUp(const Delivery& delivery, absl::Time now) {
  return delivery.attempts >= kGiveUpAttempts && now - delivery.create_time >= kGiveUpAfter;
}

}  // namespace

AttemptClass Classify(const AttemptResult& result) {
  const int status = result.status;
  if (result.denied) return AttemptClass::kSlowRetry;
  if (status >= 200 && status < 300) return AttemptClass::kAccepted;
  if (IsOneOf(status, {400, 413, 422})) return AttemptClass::kDead;
  if (status == 410) return AttemptClass::kGone;
  if (IsOneOf(status, {408, 425, 429})) return AttemptClass::kRetry;
  return status >= 300 && status < 500 ? AttemptClass::kSlowRetry : AttemptClass::kRetry;
}

bool OutcomeUnknown(const AttemptResult& result) {
  return result.maybe_sent || IsOneOf(result.status, {502, 504});
}

std::optional<absl::Duration> ParseRetryAfter(absl::string_view header, absl::Time now) {
  header = absl::StripAsciiWhitespace(header);
  if (header.empty()) return std::nullopt;
  if (std::all_of(header.begin(), header.end(), absl::ascii_isdigit)) {
    uint64_t seconds = 0;
    // More digits than fit: the cap.
    if (!absl::SimpleAtoi(header, &seconds) || seconds > 3600) return kMaxRetryAfter;
    return absl::Seconds(seconds);
  }
  for (const absl::string_view form :
       {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"}) {
    absl::Time date;
    std::string error;
    if (absl::ParseTime(form, header, absl::UTCTimeZone(), &date, &error))
      return std::clamp(date - now, absl::ZeroDuration(), kMaxRetryAfter);
  }
  return std::nullopt;
}

absl::Duration LadderDelay(uint32_t attempts, absl::string_view delivery_id) {
  constexpr std::array<int, 7> kLadder = {1, 2, 5, 10, 20, 30, 60};
  if (attempts <= kLadder.size()) return absl::Seconds(kLadder[std::max(attempts, 1u) - 1]);
  const double unit = Crc32c(absl::StrCat(delivery_id, ":", attempts)) / 4294967296.0;  // [0, 1)
  return absl::Seconds(48 + 24 * unit);
}

std::vector<Delivery> Due(const std::vector<Delivery>& pending, absl::Time now) {
  std::vector<const Delivery*> heads = LaneHeads(pending);
  heads.erase(std::remove_if(heads.begin(), heads.end(),
                             [&](const Delivery* d) { return WaitOf(*d, now) > absl::ZeroDuration(); }),
              heads.end());
  return TakeTurns(std::move(heads));
}

absl::Duration UntilDue(const std::vector<Delivery>& pending, absl::Time now) {
  absl::Duration least = absl::InfiniteDuration();
  for (const Delivery* head : LaneHeads(pending)) least = std::min(least, WaitOf(*head, now));
  return least;
}

Delivery BeginAttempt(Delivery delivery) {
  ++delivery.attempts;
  delivery.outcome_unknown = true;
  return delivery;
}

Delivery AfterAttempt(Delivery delivery, const AttemptResult& result, absl::Time now) {
  ++delivery.attempts;
  delivery.outcome_unknown = delivery.outcome_unknown || OutcomeUnknown(result);
  delivery.last_status = result.status;
  delivery.last_error = CutUtf8(ToValidUtf8(result.error), kMaxErrorBytes);
  switch (Classify(result)) {
    case AttemptClass::kAccepted:
      delivery.state = DeliveryState::kDelivered;
      delivery.deliver_time = now;
      delivery.last_error.clear();
      return delivery;
    case AttemptClass::kDead:
    case AttemptClass::kGone:
      delivery.state = DeliveryState::kDead;
      return delivery;
    case AttemptClass::kRetry:
    case AttemptClass::kSlowRetry:
      if (GivesUp(delivery, now)) delivery.state = DeliveryState::kDead;
      delivery.not_before = now + RetryDelay(delivery, result, now);
  }
  return delivery;
}

}  // namespace weft
