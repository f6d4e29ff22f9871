// FindingService and AlertService.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "convert/convert.h"
#include "convert/finding_text.h"
#include "server/alert/window.h"
#include "server/api/field_check.h"
#include "server/api/paging.h"
#include "server/api/queries.h"

namespace weft {
namespace {

constexpr size_t kMaxIdBytes = 128;

void FillHostnames(const NodeDirectory& directory, v1::Finding* out) {
  for (const std::string& id : out->node_ids()) out->add_hostnames(directory.HostnameOf(id));
  for (v1::Evidence& evidence : *out->mutable_evidence()) {
    if (evidence.partner_node_id().empty()) continue;
    evidence.set_partner_hostname(directory.HostnameOf(evidence.partner_node_id()));
  }
  out->set_summary(directory.WithHostnames(out->summary()));
  out->set_summary(SummaryWithSubject(*out));
}

std::vector<std::string> MutedNow(const Episode& episode, const NodeDirectory& directory,
                                  const std::vector<MaintenanceWindow>& windows, absl::Time now) {
  if (!episode.is_open()) return episode.muted_by;
  const NodeLookup lookup = [&](absl::string_view id) {
    const NodeRecord* record = directory.ById(id);
    return record == nullptr ? nullptr : &record->node;
  };
  return MutedBy(episode.finding, lookup, windows, now);
}

}  // namespace

absl::StatusOr<v1::Finding> Queries::FindingOf(const Episode& episode, const NodeDirectory& directory,
                                               const std::vector<MaintenanceWindow>& windows,
                                               absl::Time now) {
  v1::Finding out;
  ToProto(episode, &out);
  FillHostnames(directory, &out);
  out.clear_muted_by();
  for (const std::string& id : MutedNow(episode, directory, windows, now)) out.add_muted_by(id);
  if (!episode.notified) return out;
  const auto deliveries = store_.ListDeliveries(episode.id, {kMaxPageSize, ""});
  if (!deliveries.ok()) return deliveries.status();
  uint32_t sent = 0;
  for (const Delivery& delivery : *deliveries) sent += delivery.state == DeliveryState::kDelivered ? 1 : 0;
  out.set_notifications_sent(sent);
  return out;
}

absl::StatusOr<v1::ListFindingsResponse> Queries::ListFindings(const v1::ListFindingsRequest& request) {
  const absl::Time now = clock_.Now();
  const auto size = PageSize(request.page_size());
  if (!size.ok()) return size.status();
  const auto directory = Directory();
  if (!directory.ok()) return directory.status();
  const auto node_id = NodeIdFor(*directory, request.node());
  if (!node_id.ok()) return node_id.status();
  const std::string list =
      absl::StrCat("findings ", request.open_only(), " ", request.include_info(), " ", *node_id);
  const auto before = DecodePageToken(list, request.page_token());
  if (!before.ok()) return before.status();
  const auto windows = store_.ListWindows();
  if (!windows.ok()) return windows.status();
  const auto episodes =
      store_.ListEpisodes({request.open_only(), *node_id, request.include_info()}, {*size + 1, *before});
  if (!episodes.ok()) return episodes.status();
  const std::vector<MaintenanceWindow> open = OpenWindows(*windows, now);
  v1::ListFindingsResponse response;
  absl::Status failed;
  const auto add = [&](const Episode& episode) {
    auto finding = FindingOf(episode, *directory, open, now);
    failed.Update(finding.status());
    if (!finding.ok()) return size_t{0};
    response.add_findings()->Swap(&*finding);
    return response.findings(response.findings_size() - 1).ByteSizeLong();
  };
  const auto key = [](const Episode& episode) { return episode.id; };
  response.set_next_page_token(FillPage(*episodes, *size, list, add, key));
  if (!failed.ok()) return failed;
  return response;
}

absl::StatusOr<v1::GetFindingResponse> Queries::GetFinding(const v1::GetFindingRequest& request) {
  if (absl::Status status = CheckText("finding_id", request.finding_id(), 1, kMaxIdBytes); !status.ok()) {
    return status;
  }
  const auto directory = Directory();
  if (!directory.ok()) return directory.status();
  const auto windows = store_.ListWindows();
  if (!windows.ok()) return windows.status();
  const auto episode = store_.GetEpisode(request.finding_id());
  if (absl::IsNotFound(episode.status())) {
    return absl::NotFoundError(absl::StrCat("no finding \"", request.finding_id(),
                                            "\"; ids are those of ListFindings, and old ones are deleted."));
  }
  if (!episode.ok()) return episode.status();
  auto finding = FindingOf(*episode, *directory, *windows, clock_.Now());
  if (!finding.ok()) return finding.status();
  v1::GetFindingResponse response;
  response.mutable_finding()->Swap(&*finding);
  return response;
}

absl::StatusOr<v1::ListDeliveriesResponse> Queries::ListDeliveries(const v1::ListDeliveriesRequest& request) {
  const auto size = PageSize(request.page_size());
  if (!size.ok()) return size.status();
  if (absl::Status status = CheckText("finding_id", request.finding_id(), 0, kMaxIdBytes); !status.ok()) {
    return status;
  }
  const std::string list = absl::StrCat("deliveries ", request.finding_id());
  const auto before = DecodePageToken(list, request.page_token());
  if (!before.ok()) return before.status();
  const auto rows = store_.ListDeliveries(request.finding_id(), {*size + 1, *before});
  if (!rows.ok()) return rows.status();
  v1::ListDeliveriesResponse response;
  const auto add = [&](const Delivery& delivery) {
    ToProto(delivery, response.add_deliveries());
    return response.deliveries(response.deliveries_size() - 1).ByteSizeLong();
  };
  const auto key = [](const Delivery& delivery) { return delivery.id; };
  response.set_next_page_token(FillPage(*rows, *size, list, add, key));
  return response;
}

}  // namespace weft
