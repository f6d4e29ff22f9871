// MaintenanceService.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/id.h"
#include "base/near_match.h"
#include "base/text.h"
#include "convert/convert.h"
#include "server/alert/window.h"
#include "server/api/field_check.h"
#include "server/api/paging.h"
#include "server/api/queries.h"

namespace weft {
namespace {

constexpr size_t kMaxWindows = 10000;
constexpr int kMaxMatchedHostnames = 100;
constexpr size_t kMaxRequestIdBytes = 64;
constexpr size_t kMaxPersonBytes = 128;
constexpr size_t kMaxWindowIdBytes = 64;
constexpr int kEndAttempts = 5;

using Windows = std::vector<MaintenanceWindow>;

bool IsOver(const MaintenanceWindow& window, absl::Time now) {
  const WindowState state = StateOf(window, now);
  return state == WindowState::kEnded || state == WindowState::kCancelled;
}

const MaintenanceWindow* WithId(const Windows& windows, absl::string_view id) {
  const auto same = [&](const MaintenanceWindow& window) { return window.id == id; };
  const auto found = std::find_if(windows.begin(), windows.end(), same);
  return found == windows.end() ? nullptr : &*found;
}

bool KnowsRequest(const Windows& windows, absl::string_view request_id) {
  const auto same = [&](const MaintenanceWindow& window) { return window.request_id == request_id; };
  return !request_id.empty() && std::any_of(windows.begin(), windows.end(), same);
}

std::string NewId(const Windows& windows) {
  std::string id;
  do {
    id = absl::StrCat("mw-", RandomHex(4));
  } while (WithId(windows, id) != nullptr);
  return id;
}

absl::Status NoWindow(const Windows& windows, absl::string_view id) {
  std::vector<std::string> ids;
  for (const MaintenanceWindow& window : windows) ids.push_back(window.id);
  return absl::NotFoundError(
      absl::StrCat("no maintenance window \"", id, "\".", DidYouMean(NearMatches(id, ids))));
}

// A resend is judged by the store, which knows whether it is the same window; time has passed since.
absl::Status CheckNew(const MaintenanceWindow& window, const Windows& windows, absl::Time now) {
  if (KnowsRequest(windows, window.request_id)) return absl::OkStatus();
  const auto lives = [&](const MaintenanceWindow& each) { return !IsOver(each, now); };
  if (static_cast<size_t>(std::count_if(windows.begin(), windows.end(), lives)) >= kMaxWindows) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", kMaxWindows, " maintenance windows; end some that are not needed."));
  }
  return ValidateWindow(window, now);
}

void FillOccurrence(const MaintenanceWindow& window, absl::Time now, v1::MaintenanceWindow* out) {
  auto occurrence = OccurrenceAt(window, now);
  if (!occurrence) occurrence = NextOccurrence(window, now);
  if (!occurrence) return;
  ToProto(occurrence->start, out->mutable_occurrence_start_time());
  ToProto(occurrence->end, out->mutable_occurrence_end_time());
}

// The window without what it says of probes: whether it concerns a node at all.
MaintenanceWindow OnNodes(MaintenanceWindow window) {
  std::erase_if(window.matchers, [](const Matcher& matcher) { return matcher.label == "probe"; });
  return window;
}

v1::MaintenanceWindow WindowOf(const MaintenanceWindow& window, const NodeDirectory& directory,
                               absl::Time now) {
  v1::MaintenanceWindow out;
  ToProto(window, &out);
  out.set_state(static_cast<v1::WindowState>(StateOf(window, now)));
  FillOccurrence(window, now, &out);
  const MaintenanceWindow on_nodes = OnNodes(window);
  for (const NodeRecord& record : directory.nodes()) {
    if (out.matched_hostnames_size() >= kMaxMatchedHostnames) break;
    if (Matches(on_nodes, LabelsOf(record.node, ""))) out.add_matched_hostnames(record.node.hostname);
  }
  return out;
}

absl::Status CheckEnd(const v1::EndMaintenanceWindowRequest& request) {
  absl::Status status = CheckText("window_id", request.window_id(), 1, kMaxWindowIdBytes);
  status.Update(CheckText("ended_by", request.ended_by(), 1, kMaxPersonBytes));
  return status;
}

// Lists are newest first; the token names the last window given, which is never deleted while it is listed.
Windows After(Windows windows, absl::string_view last_id) {
  if (last_id.empty()) return windows;
  const MaintenanceWindow* last = WithId(windows, last_id);
  if (last == nullptr) return {};
  windows.erase(windows.begin(), windows.begin() + (last - windows.data()) + 1);
  return windows;
}

}  // namespace

void Queries::WindowsChanged() const {
  if (options_.on_windows_changed) options_.on_windows_changed();
}

absl::StatusOr<v1::MaintenanceWindow> Queries::Describe(const MaintenanceWindow& window, absl::Time now) {
  const auto directory = Directory();
  if (!directory.ok()) return directory.status();
  return WindowOf(window, *directory, now);
}

absl::StatusOr<v1::CreateMaintenanceWindowResponse> Queries::CreateMaintenanceWindow(
    const v1::CreateMaintenanceWindowRequest& request) {
  const absl::Time now = clock_.Now();
  if (absl::Status status = CheckText("request_id", request.request_id(), 0, kMaxRequestIdBytes);
      !status.ok()) {
    return status;
  }
  auto window = FromProto(request.window());
  if (!window.ok()) return window.status();
  const auto windows = store_.ListWindows();
  if (!windows.ok()) return windows.status();
  window->id = NewId(*windows);
  window->create_time = now;
  window->ended_time = absl::InfiniteFuture();
  window->ended_by.clear();
  window->revision = 1;
  window->request_id = request.request_id();
  if (absl::Status status = CheckNew(*window, *windows, now); !status.ok()) return status;
  const auto stored = store_.CreateWindow(*window);
  if (!stored.ok()) return stored.status();
  WindowsChanged();
  auto described = Describe(*stored, now);
  if (!described.ok()) return described.status();
  v1::CreateMaintenanceWindowResponse response;
  response.mutable_window()->Swap(&*described);
  return response;
}

absl::StatusOr<v1::ListMaintenanceWindowsResponse> Queries::ListMaintenanceWindows(
    const v1::ListMaintenanceWindowsRequest& request) {
  const absl::Time now = clock_.Now();
  const auto size = PageSize(request.page_size());
  if (!size.ok()) return size.status();
  const std::string list = absl::StrCat("windows ", request.include_ended());
  const auto last = DecodePageToken(list, request.page_token());
  if (!last.ok()) return last.status();
  const auto directory = Directory();
  if (!directory.ok()) return directory.status();
  auto windows = store_.ListWindows();
  if (!windows.ok()) return windows.status();
  Windows rows = After(*std::move(windows), *last);
  std::erase_if(rows, [&](const auto& window) { return !request.include_ended() && IsOver(window, now); });
  v1::ListMaintenanceWindowsResponse response;
  const auto add = [&](const MaintenanceWindow& window) {
    *response.add_windows() = WindowOf(window, *directory, now);
    return response.windows(response.windows_size() - 1).ByteSizeLong();
  };
  const auto key = [](const MaintenanceWindow& window) { return window.id; };
  response.set_next_page_token(FillPage(rows, *size, list, add, key));
  return response;
}

absl::StatusOr<MaintenanceWindow> Queries::EndOnce(const v1::EndMaintenanceWindowRequest& request,
                                                   absl::Time now) {
  const auto windows = store_.ListWindows();
  if (!windows.ok()) return windows.status();
  const MaintenanceWindow* stored = WithId(*windows, request.window_id());
  if (stored == nullptr) return NoWindow(*windows, request.window_id());
  if (stored->ended_time != absl::InfiniteFuture()) return *stored;
  if (request.revision() != 0 && request.revision() != stored->revision) {
    return absl::AbortedError(absl::StrCat("window ", stored->id, " has revision ", stored->revision,
                                           ", not ", request.revision(), "; look at it again first."));
  }
  if (IsOver(*stored, now)) {
    return absl::FailedPreconditionError(absl::StrCat("window ", stored->id, " is over already."));
  }
  MaintenanceWindow ended = *stored;
  ended.ended_time = now;
  ended.ended_by = request.ended_by();
  ++ended.revision;
  if (absl::Status status = store_.UpdateWindow(ended); !status.ok()) return status;
  WindowsChanged();
  return ended;
}

absl::StatusOr<v1::EndMaintenanceWindowResponse> Queries::EndMaintenanceWindow(
    const v1::EndMaintenanceWindowRequest& request) {
  const absl::Time now = clock_.Now();
  if (absl::Status status = CheckEnd(request); !status.ok()) return status;
  auto ended = EndOnce(request, now);
  // Without a revision the caller means the window as it is, whoever changed it in between.
  for (int i = 1; i < kEndAttempts && request.revision() == 0 && absl::IsAborted(ended.status()); ++i) {
    ended = EndOnce(request, now);
  }
  if (!ended.ok()) return ended.status();
  auto described = Describe(*ended, now);
  if (!described.ok()) return described.status();
  v1::EndMaintenanceWindowResponse response;
  response.mutable_window()->Swap(&*described);
  return response;
}

}  // namespace weft
