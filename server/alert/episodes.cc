#include "server/alert/episodes.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/id.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr double kMaterialRatio = 0.02;
constexpr double kMaterialConfidence = 0.05;
constexpr absl::Duration kEvidenceRefresh = absl::Minutes(5);
// Where the rows of an old trigger are gone, its sequence is unknown but certainly below this.
constexpr uint32_t kSequenceAfterLostRows = 1000;
constexpr size_t kMaxReasonBytes = 256;

// Which finding continues which episode.
struct Pairing {
  std::map<std::string, const Finding*> held;
  std::map<std::string, const Episode*> open;
  std::vector<const Episode*> ending;  // no finding holds them up, or a second one of the same key
};

Pairing Pair(const EpisodeInput& input) {
  Pairing pairing;
  for (const Finding& finding : input.findings) pairing.held.emplace(finding.Key(), &finding);
  for (const Episode& episode : input.open_episodes) {
    const std::string key = episode.finding.Key();
    const bool continues = pairing.held.count(key) > 0 && pairing.open.emplace(key, &episode).second;
    if (!continues) pairing.ending.push_back(&episode);
  }
  return pairing;
}

bool IsTold(const Finding& finding) {
  return finding.severity != Severity::kInfo && finding.kind != FindingKind::kTransient;
}

// From "noted only" to something that people are told.
bool HasBecomeGrave(const Episode& open, const Finding& now) { return !IsTold(open.finding) && IsTold(now); }

absl::Time NewestEvidence(const Finding& finding) {
  return finding.evidence.empty() ? absl::InfinitePast() : finding.evidence.front().time;
}

bool IsMaterial(const Finding& stored, const Finding& now) {
  return stored.severity != now.severity || stored.since != now.since ||
         std::abs(stored.ratio - now.ratio) >= kMaterialRatio ||
         std::abs(stored.confidence - now.confidence) >= kMaterialConfidence ||
         NewestEvidence(now) - NewestEvidence(stored) >= kEvidenceRefresh;
}

bool IsTrigger(const Delivery& delivery) { return delivery.action == DeliveryAction::kTrigger; }

// Accepted, or possibly so.
bool WasTold(const Delivery& delivery) {
  return delivery.state == DeliveryState::kDelivered || delivery.outcome_unknown;
}

// Nothing more to do about it: told, on its way, or refused for good.
bool IsSettled(const Delivery& delivery) { return delivery.state != DeliveryState::kDropped; }

class Pass {
 public:
  Pass(const EpisodeInput& input, absl::Time now)
      : input_(input), now_(now), open_windows_(OpenWindows(input.windows, now)) {
    std::set<absl::string_view> seen;
    for (const Delivery& delivery : input.deliveries) {
      if (seen.insert(delivery.id).second) deliveries_[delivery.episode_id].push_back(&delivery);
    }
  }

  // The finding holds; `open` is its episode, or nullptr.
  void Hold(const Finding& finding, const Episode* open) {
    Episode episode = open != nullptr ? *open : New(finding);
    const std::vector<std::string> before = std::exchange(episode.muted_by, MutedNow(finding));
    const bool freed = !before.empty() && episode.muted_by.empty();
    const bool grave = open != nullptr && HasBecomeGrave(*open, finding);
    const bool to_tell = episode.muted_by.empty() && IsTold(finding) && (!episode.notified || freed || grave);
    if (!episode.muted_by.empty()) DropPendingTriggers(episode.id);
    if (open == nullptr || to_tell || IsMaterial(episode.finding, finding)) episode.finding = finding;
    if (to_tell) QueueTriggers(episode, freed ? NoteOn(before) : "");
    if (open == nullptr || episode != *open) changes_.episodes.push_back(std::move(episode));
  }

  void Resolve(Episode episode) {
    episode.resolve_time = std::max(EndOf(episode.finding), episode.open_time);
    DropPendingTriggers(episode.id);
    const auto found = input_.end_notes.find(episode.finding.Key());
    const std::string note = found == input_.end_notes.end() ? "" : found->second;
    if (!note.empty()) episode.finding.summary = absl::StrCat(note, "; before: ", episode.finding.summary);
    for (const std::string& receiver : input_.receivers) {
      if (NeedsResolve(episode, receiver)) Queue(episode, receiver, DeliveryAction::kResolve, note);
    }
    changes_.episodes.push_back(std::move(episode));
  }

  // Whether a receiver may have to be told now although a trigger was queued before.
  bool MayTellAgain(const Episode& open, const Finding& finding) const {
    return HasBecomeGrave(open, finding) || (!open.muted_by.empty() && MutedNow(finding).empty());
  }

  EpisodeChanges Take() { return std::move(changes_); }

 private:
  Episode New(const Finding& finding) const {
    Episode episode;
    episode.id = TimeOrderedUuid(now_);
    episode.finding = finding;
    episode.open_time = now_;
    return episode;
  }

  std::vector<std::string> MutedNow(const Finding& finding) const {
    return MutedBy(finding, input_.nodes, open_windows_, now_);
  }

  absl::Time EndOf(const Finding& finding) const {
    const auto it = input_.end_times.find(finding.Key());
    return it == input_.end_times.end() ? now_ : it->second;
  }

  const std::vector<const Delivery*>& Rows(const std::string& episode_id) const {
    static const auto& kNone = *new std::vector<const Delivery*>();
    const auto it = deliveries_.find(episode_id);
    return it == deliveries_.end() ? kNone : it->second;
  }

  // Retention may have taken the rows of an episode that has been open for long: all receivers count as told
  // then.
  bool RowsLost(const Episode& episode) const { return episode.notified && Rows(episode.id).empty(); }

  template <typename Predicate>
  bool AnyTrigger(const Episode& episode, const std::string& receiver, Predicate predicate) const {
    const auto& rows = Rows(episode.id);
    return std::any_of(rows.begin(), rows.end(), [&](const Delivery* row) {
      return row->receiver == receiver && IsTrigger(*row) && predicate(*row);
    });
  }

  bool NeedsResolve(const Episode& episode, const std::string& receiver) const {
    return RowsLost(episode) || AnyTrigger(episode, receiver, WasTold);
  }

  bool NeedsTrigger(const Episode& episode, const std::string& receiver) const {
    return !RowsLost(episode) && !AnyTrigger(episode, receiver, IsSettled);
  }

  uint32_t NextSequence(const Episode& episode, const std::string& receiver) const {
    if (RowsLost(episode)) return kSequenceAfterLostRows;
    uint32_t last = 0;
    for (const Delivery* row : Rows(episode.id)) {
      if (row->receiver == receiver) last = std::max(last, row->sequence);
    }
    return last + 1;
  }

  void QueueTriggers(Episode& episode, absl::string_view note) {
    std::vector<std::string> receivers;
    std::copy_if(input_.receivers.begin(), input_.receivers.end(), std::back_inserter(receivers),
                 [&](const std::string& receiver) { return NeedsTrigger(episode, receiver); });
    for (const std::string& receiver : receivers) Queue(episode, receiver, DeliveryAction::kTrigger, note);
    episode.notified = episode.notified || !receivers.empty();
  }

  void Queue(const Episode& episode, const std::string& receiver, DeliveryAction action,
             absl::string_view note) {
    Delivery delivery;
    delivery.id = absl::StrCat("msg_", TimeOrderedUuid(now_));
    delivery.receiver = receiver;
    delivery.episode_id = episode.id;
    delivery.action = action;
    delivery.sequence = NextSequence(episode, receiver);
    delivery.body = EventBody(episode, action, delivery.sequence, input_.nodes, input_.external_url, note);
    delivery.not_before = now_;
    delivery.create_time = now_;
    changes_.deliveries.push_back(std::move(delivery));
  }

  void DropPendingTriggers(const std::string& episode_id) {
    for (const Delivery* row : Rows(episode_id)) {
      if (IsTrigger(*row) && row->state == DeliveryState::kPending)
        changes_.drop_deliveries.push_back(row->id);
    }
  }

  std::string WindowText(const std::string& id) const {
    for (const MaintenanceWindow& window : input_.windows) {
      if (window.id == id && !window.reason.empty())
        return absl::StrCat(id, " (", CutUtf8(ToValidUtf8(window.reason), kMaxReasonBytes), ")");
    }
    return id;
  }

  std::string NoteOn(const std::vector<std::string>& window_ids) const {
    std::vector<std::string> texts;
    for (const std::string& id : window_ids) texts.push_back(WindowText(id));
    return absl::StrCat("held back until now by maintenance window ", absl::StrJoin(texts, ", "));
  }

  const EpisodeInput& input_;
  const absl::Time now_;
  const std::vector<MaintenanceWindow> open_windows_;
  std::map<std::string, std::vector<const Delivery*>> deliveries_;
  EpisodeChanges changes_;
};

}  // namespace

std::vector<std::string> EpisodesToLookUp(const EpisodeInput& input, absl::Time now) {
  const Pairing pairing = Pair(input);
  const Pass pass(input, now);
  std::vector<std::string> ids;
  for (const Episode* episode : pairing.ending) {
    if (episode->notified) ids.push_back(episode->id);
  }
  for (const auto& [key, episode] : pairing.open) {
    if (episode->notified && pass.MayTellAgain(*episode, *pairing.held.at(key))) ids.push_back(episode->id);
  }
  return ids;
}

EpisodeChanges Reconcile(const EpisodeInput& input, absl::Time now) {
  const Pairing pairing = Pair(input);
  Pass pass(input, now);
  for (const auto& [key, finding] : pairing.held) {
    const auto open = pairing.open.find(key);
    pass.Hold(*finding, open == pairing.open.end() ? nullptr : open->second);
  }
  for (const Episode* episode : pairing.ending) pass.Resolve(*episode);
  return pass.Take();
}

}  // namespace weft
