// Every question and order of operators, answered from the store and the loops' memory. Used by the gRPC
// services (services.h) and by the JSON API. Thread-safe; calls block on the store.
//
// Errors: kInvalidArgument says which field, what is wrong and the limit; kNotFound names what is missing and
// what is near; kFailedPrecondition and kAborted as the call says; the store's own codes pass through.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "server/api/fleet_view.h"
#include "server/api/node_directory.h"
#include "server/api/node_status.h"
#include "store/store.h"
#include "weft/v1/finding.pb.h"
#include "weft/v1/fleet.pb.h"
#include "weft/v1/maintenance.pb.h"

namespace weft {

struct QueriesOptions {
  std::string version;
  // A node without a good result for this long is STALE; should span several rounds of the slowest probe.
  absl::Duration stale_after = absl::Hours(1);
  // Called after a window was created or ended, on the caller's thread; must be short. May be null.
  std::function<void()> on_windows_changed;
  // Called after a node was removed, with what its findings are to say of their end, e.g. "node gpu017
  // removed by ann"; the same thread and brevity. May be null.
  std::function<void(const std::string& node_id, const std::string& note)> on_node_removed;
};

class Queries {
 public:
  // All three references must outlive this.
  Queries(Store& store, const FleetView& view, Clock& clock, QueriesOptions options);

  // --- FleetService, ServerService ---
  absl::StatusOr<v1::ListNodesResponse> ListNodes(const v1::ListNodesRequest& request);
  absl::StatusOr<v1::GetNodeResponse> GetNode(const v1::GetNodeRequest& request);
  absl::StatusOr<v1::ListSlowNodesResponse> ListSlowNodes(const v1::ListSlowNodesRequest& request);
  absl::StatusOr<v1::ListNodeHistoryResponse> ListNodeHistory(const v1::ListNodeHistoryRequest& request);
  // Pages end early where an answer would grow too large for one message.
  absl::StatusOr<v1::ListRunsResponse> ListRuns(const v1::ListRunsRequest& request);
  absl::StatusOr<v1::GetRunResponse> GetRun(const v1::GetRunRequest& request);
  // kFailedPrecondition while the node's agent is connected, or when the hostname is also that of another
  // node.
  absl::StatusOr<v1::RemoveNodeResponse> RemoveNode(const v1::RemoveNodeRequest& request);
  absl::StatusOr<v1::GetStatusResponse> GetStatus(const v1::GetStatusRequest& request);
  // All nodes as ListNodes gives them, in one go: for the metrics page. Costs one read of nodes, open
  // episodes and windows.
  absl::StatusOr<std::vector<v1::NodeStatus>> AllNodes();

  // --- FindingService, AlertService ---
  absl::StatusOr<v1::ListFindingsResponse> ListFindings(const v1::ListFindingsRequest& request);
  absl::StatusOr<v1::GetFindingResponse> GetFinding(const v1::GetFindingRequest& request);
  absl::StatusOr<v1::ListDeliveriesResponse> ListDeliveries(const v1::ListDeliveriesRequest& request);

  // --- MaintenanceService ---
  // A new window must pass ValidateWindow (server/alert/window.h); kAlreadyExists when request_id was used
  // with other content; kResourceExhausted above 10,000 windows that are not over.
  absl::StatusOr<v1::CreateMaintenanceWindowResponse> CreateMaintenanceWindow(
      const v1::CreateMaintenanceWindowRequest& request);
  absl::StatusOr<v1::ListMaintenanceWindowsResponse> ListMaintenanceWindows(
      const v1::ListMaintenanceWindowsRequest& request);
  // A window that was ended by hand before is answered as it stands. kFailedPrecondition when its schedule is
  // over; kAborted when `revision` is not the stored one.
  absl::StatusOr<v1::EndMaintenanceWindowResponse> EndMaintenanceWindow(
      const v1::EndMaintenanceWindowRequest& request);

 private:
  // Nodes with what the open streams know on top.
  absl::StatusOr<NodeDirectory> Directory();
  // Facts of every node of `directory`, in its order.
  absl::StatusOr<std::vector<NodeFacts>> FactsOf(const NodeDirectory& directory, absl::Time now);
  // "" for an empty name.
  absl::StatusOr<std::string> NodeIdFor(const NodeDirectory& directory, absl::string_view name);
  absl::StatusOr<v1::Finding> FindingOf(const Episode& episode, const NodeDirectory& directory,
                                        const std::vector<MaintenanceWindow>& windows, absl::Time now);
  absl::StatusOr<MaintenanceWindow> EndOnce(const v1::EndMaintenanceWindowRequest& request, absl::Time now);
  absl::StatusOr<v1::MaintenanceWindow> Describe(const MaintenanceWindow& window, absl::Time now);
  void WindowsChanged() const;

  Store& store_;
  const FleetView& view_;
  Clock& clock_;
  const QueriesOptions options_;
};

}  // namespace weft
