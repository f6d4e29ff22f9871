// FleetService and ServerService.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "convert/convert.h"
#include "server/api/field_check.h"
#include "server/api/paging.h"
#include "server/api/queries.h"

namespace weft {
namespace {

constexpr int32_t kDefaultSlowPage = 20;
constexpr double kDefaultBelowRatio = 0.9;
constexpr size_t kMaxProbeNameBytes = 64;
constexpr size_t kMaxRunIdBytes = 128;
constexpr size_t kMaxCreatorBytes = 128;

// A NUL cannot stand in a hostname, so that keys order as (hostname, id) do.
std::string StatusKey(const v1::NodeStatus& status) {
  return absl::StrCat(status.node().hostname(), std::string(1, '\0'), status.node().node_id());
}

// Orders slow nodes, worst first; fixed width, so that it orders as text.
std::string SlowKey(const v1::NodeStatus& status) {
  return absl::StrCat(absl::StrFormat("%.9f", status.bandwidth_ratio()), " ", StatusKey(status));
}

bool IsBelow(const v1::NodeStatus& status, double ratio) {
  return status.expected_bandwidth_bytes_per_second() > 0 && status.bandwidth_ratio() < ratio;
}

v1::HistoryPoint PointOf(const StoredResult& stored, const NodeDirectory& directory) {
  v1::HistoryPoint point;
  ToProto(stored.plan_time, point.mutable_time());
  v1::Result result;
  ToProto(stored.result, &result);
  point.set_run_id(result.run_id());
  point.set_outcome(result.outcome());
  point.mutable_measurements()->Swap(result.mutable_measurements());
  point.set_provider(result.provider());
  point.set_detail(result.detail());
  point.set_in_maintenance(stored.in_maintenance);
  for (const std::string& id : stored.participants) {
    if (id == stored.result.node_id) continue;
    point.set_peer_node_id(id);
    point.set_peer_hostname(directory.HostnameOf(id));
    break;
  }
  return point;
}

using ResultsByRun = std::map<std::string, std::vector<StoredResult>>;

v1::Run RunOf(const Run& run, const NodeDirectory& directory, const ResultsByRun& results) {
  v1::Run out;
  ToProto(run, &out);
  for (v1::RunParticipant& participant : *out.mutable_participants()) {
    participant.set_hostname(directory.HostnameOf(participant.node_id()));
  }
  const auto found = results.find(run.id);
  if (found == results.end()) return out;
  for (const StoredResult& stored : found->second) {
    const int rank = static_cast<int>(stored.result.rank);
    if (rank >= out.participants_size()) continue;
    ToProto(stored.result, out.mutable_participants(rank)->mutable_result());
  }
  return out;
}

absl::StatusOr<ResultsByRun> LoadResults(Store& store, const std::vector<Run>& runs) {
  std::vector<std::string> ids;
  for (const Run& run : runs) ids.push_back(run.id);
  auto stored = store.ResultsOfRuns(ids);
  if (!stored.ok()) return stored.status();
  ResultsByRun by_run;
  for (StoredResult& result : *stored) by_run[result.result.run_id].push_back(std::move(result));
  return by_run;
}

using Presences = std::map<std::string, AgentPresence, std::less<>>;

absl::Status CheckRemovable(const NodeRecord& record, const NodeDirectory& directory,
                            const Presences& connected) {
  if (connected.count(record.node.id) == 0) return absl::OkStatus();
  std::string others;
  for (const NodeRecord* other : directory.Named(record.node.hostname)) {
    if (connected.count(other->node.id) == 0)
      absl::StrAppend(&others, others.empty() ? " Not connected, and of the same hostname: " : ", ",
                      other->node.id);
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the agent of ", record.node.hostname, " (", record.node.id,
                   ") is connected; stop it first, or it would be back at once.", others,
                   others.empty() ? "" : "; to remove it, give its id."));
}

// The page key of NodeHistory is a decimal id; anything else never came from this list.
absl::StatusOr<std::string> HistoryKey(absl::string_view list, absl::string_view token) {
  auto key = DecodePageToken(list, token);
  int64_t id = 0;
  if (!key.ok() || key->empty() || absl::SimpleAtoi(*key, &id)) return key;
  return absl::InvalidArgumentError("page_token is not one of this list.");
}

}  // namespace

absl::StatusOr<std::vector<v1::NodeStatus>> Queries::AllNodes() {
  const absl::Time now = clock_.Now();
  const auto directory = Directory();
  if (!directory.ok()) return directory.status();
  const auto facts = FactsOf(*directory, now);
  if (!facts.ok()) return facts.status();
  std::vector<v1::NodeStatus> out;
  out.reserve(facts->size());
  for (const NodeFacts& each : *facts) out.push_back(NodeStatusOf(each, now, options_.stale_after));
  return out;
}

absl::StatusOr<v1::ListNodesResponse> Queries::ListNodes(const v1::ListNodesRequest& request) {
  const auto size = PageSize(request.page_size());
  if (!size.ok()) return size.status();
  const auto after = DecodePageToken("nodes", request.page_token());
  if (!after.ok()) return after.status();
  auto nodes = AllNodes();
  if (!nodes.ok()) return nodes.status();
  std::erase_if(*nodes, [&](const v1::NodeStatus& s) { return !after->empty() && StatusKey(s) <= *after; });
  v1::ListNodesResponse response;
  const auto add = [&](const v1::NodeStatus& status) {
    *response.add_nodes() = status;
    return status.ByteSizeLong();
  };
  response.set_next_page_token(FillPage(*nodes, *size, "nodes", add, StatusKey));
  return response;
}

absl::StatusOr<v1::GetNodeResponse> Queries::GetNode(const v1::GetNodeRequest& request) {
  const absl::Time now = clock_.Now();
  const auto directory = Directory();
  if (!directory.ok()) return directory.status();
  const auto record = directory->Find(request.node());
  if (!record.ok()) return record.status();
  const auto facts = FactsOf(NodeDirectory({**record}), now);
  if (!facts.ok()) return facts.status();
  v1::GetNodeResponse response;
  *response.mutable_node() = NodeStatusOf(facts->front(), now, options_.stale_after);
  return response;
}

absl::StatusOr<v1::ListSlowNodesResponse> Queries::ListSlowNodes(const v1::ListSlowNodesRequest& request) {
  const auto size = PageSize(request.page_size(), kDefaultSlowPage);
  if (!size.ok()) return size.status();
  const double below = request.below_ratio() == 0 ? kDefaultBelowRatio : request.below_ratio();
  if (!(below > 0 && below <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("below_ratio is ", below, "; it must be 0 to 1."));
  }
  const std::string list = absl::StrCat("slow ", below);
  const auto after = DecodePageToken(list, request.page_token());
  if (!after.ok()) return after.status();
  auto nodes = AllNodes();
  if (!nodes.ok()) return nodes.status();
  std::erase_if(*nodes, [&](const v1::NodeStatus& s) {
    return !IsBelow(s, below) || (!after->empty() && SlowKey(s) <= *after);
  });
  const auto worse = [](const v1::NodeStatus& a, const v1::NodeStatus& b) { return SlowKey(a) < SlowKey(b); };
  std::sort(nodes->begin(), nodes->end(), worse);
  v1::ListSlowNodesResponse response;
  const auto add = [&](const v1::NodeStatus& status) {
    *response.add_nodes() = status;
    return status.ByteSizeLong();
  };
  response.set_next_page_token(FillPage(*nodes, *size, list, add, SlowKey));
  return response;
}

absl::StatusOr<v1::ListNodeHistoryResponse> Queries::ListNodeHistory(
    const v1::ListNodeHistoryRequest& request) {
  const auto size = PageSize(request.page_size());
  if (!size.ok()) return size.status();
  if (absl::Status status = CheckTime("since_time", request.since_time()); !status.ok()) return status;
  const auto directory = Directory();
  if (!directory.ok()) return directory.status();
  const auto record = directory->Find(request.node());
  if (!record.ok()) return record.status();
  const std::string list = absl::StrCat("history ", (*record)->node.id);
  const auto before = HistoryKey(list, request.page_token());
  if (!before.ok()) return before.status();
  const absl::Time since = request.has_since_time() ? FromProto(request.since_time()) : absl::InfinitePast();
  const auto rows = store_.NodeHistory((*record)->node.id, since, {*size + 1, *before});
  if (!rows.ok()) return rows.status();
  v1::ListNodeHistoryResponse response;
  const auto add = [&](const StoredResult& row) {
    *response.add_points() = PointOf(row, *directory);
    return response.points(response.points_size() - 1).ByteSizeLong();
  };
  const auto key = [](const StoredResult& row) { return absl::StrCat(row.id); };
  response.set_next_page_token(FillPage(*rows, *size, list, add, key));
  return response;
}

absl::StatusOr<v1::ListRunsResponse> Queries::ListRuns(const v1::ListRunsRequest& request) {
  const auto size = PageSize(request.page_size());
  if (!size.ok()) return size.status();
  const auto directory = Directory();
  if (!directory.ok()) return directory.status();
  const auto node_id = NodeIdFor(*directory, request.node());
  if (!node_id.ok()) return node_id.status();
  if (absl::Status status = CheckText("probe", request.probe(), 0, kMaxProbeNameBytes); !status.ok())
    return status;
  if (absl::Status status = CheckTime("since_time", request.since_time()); !status.ok()) return status;
  Store::RunFilter filter{*node_id, request.probe()};
  if (request.has_since_time()) filter.since = FromProto(request.since_time());
  const std::string list = absl::StrCat("runs ", *node_id, " ", request.probe());
  const auto before = DecodePageToken(list, request.page_token());
  if (!before.ok()) return before.status();
  const auto runs = store_.ListRuns(filter, {*size + 1, *before});
  if (!runs.ok()) return runs.status();
  const auto results = LoadResults(store_, *runs);
  if (!results.ok()) return results.status();
  v1::ListRunsResponse response;
  const auto add = [&](const Run& run) {
    *response.add_runs() = RunOf(run, *directory, *results);
    return response.runs(response.runs_size() - 1).ByteSizeLong();
  };
  const auto key = [](const Run& run) { return run.id; };
  response.set_next_page_token(FillPage(*runs, *size, list, add, key));
  return response;
}

absl::StatusOr<v1::GetRunResponse> Queries::GetRun(const v1::GetRunRequest& request) {
  if (absl::Status status = CheckText("run_id", request.run_id(), 1, kMaxRunIdBytes); !status.ok())
    return status;
  const auto directory = Directory();
  if (!directory.ok()) return directory.status();
  const auto run = store_.GetRun(request.run_id());
  if (absl::IsNotFound(run.status())) {
    return absl::NotFoundError(absl::StrCat("no run \"", request.run_id(),
                                            "\"; ids are those of ListRuns, and old ones are deleted."));
  }
  if (!run.ok()) return run.status();
  const auto results = LoadResults(store_, {*run});
  if (!results.ok()) return results.status();
  v1::GetRunResponse response;
  *response.mutable_run() = RunOf(*run, *directory, *results);
  return response;
}

absl::StatusOr<v1::RemoveNodeResponse> Queries::RemoveNode(const v1::RemoveNodeRequest& request) {
  absl::Status status = CheckText("removed_by", request.removed_by(), 1, kMaxCreatorBytes);
  if (!status.ok()) return status;
  const auto directory = Directory();
  if (!directory.ok()) return directory.status();
  const auto found = directory->Find(request.node());
  if (!found.ok()) return found.status();
  const NodeRecord record = **found;
  if (status = CheckRemovable(record, *directory, view_.Connected()); !status.ok()) return status;
  const auto episodes = store_.OpenEpisodes();
  if (!episodes.ok()) return episodes.status();
  if (status = store_.RemoveNode(record.node.id); !status.ok()) return status;
  // An agent that came back meanwhile has stored its node before it was told to be connected.
  if (status = CheckRemovable(record, *directory, view_.Connected()); !status.ok()) {
    const absl::Status restored = store_.PutNode(record);
    return restored.ok() ? status : restored;
  }
  if (options_.on_node_removed) {
    options_.on_node_removed(
        record.node.id, absl::StrCat("node ", record.node.hostname, " removed by ", request.removed_by()));
  }
  v1::RemoveNodeResponse response;
  ToProto(record.node, response.mutable_node());
  response.set_closed_findings(
      static_cast<uint64_t>(std::count_if(episodes->begin(), episodes->end(), [&](const Episode& episode) {
        const std::vector<std::string>& ids = episode.finding.node_ids;
        return std::find(ids.begin(), ids.end(), record.node.id) != ids.end();
      })));
  return response;
}

absl::StatusOr<v1::GetStatusResponse> Queries::GetStatus(const v1::GetStatusRequest&) {
  const auto directory = Directory();
  if (!directory.ok()) return directory.status();
  const auto stats = store_.Stats();
  if (!stats.ok()) return stats.status();
  const auto episodes = store_.OpenEpisodes();
  if (!episodes.ok()) return episodes.status();
  const auto pending = store_.PendingDeliveries();
  if (!pending.ok()) return pending.status();
  const IngestCounters counters = view_.Counters();
  v1::GetStatusResponse response;
  response.set_version(options_.version);
  ToProto(view_.start_time(), response.mutable_start_time());
  response.set_nodes(directory->nodes().size());
  response.set_connected_agents(view_.ConnectedCount());
  response.set_results_stored(stats->results);
  response.set_records_rejected(counters.rejected_total());
  response.set_records_duplicate(counters.duplicates);
  uint64_t lost = 0;
  for (const NodeRecord& record : directory->nodes()) lost += record.spool_lost_records;
  response.set_records_lost(lost);
  response.set_rounds(stats->rounds);
  response.set_open_findings(
      static_cast<uint64_t>(std::count_if(episodes->begin(), episodes->end(), [](const Episode& episode) {
        return episode.finding.severity != Severity::kInfo;
      })));
  response.set_outbox_pending(pending->size());
  response.set_store_bytes(stats->bytes);
  response.set_detector_lag_results(view_.DetectorLag());
  response.set_resident_bytes(ResidentBytes());
  return response;
}

}  // namespace weft
