// The operators' gRPC services: thin callback services over Queries. Who may call is decided before they are
// reached (server/auth). Handlers run on gRPC's threads and block on the store for one bounded page.
#pragma once

#include "absl/status/status.h"
#include "grpcpp/grpcpp.h"
#include "server/api/queries.h"
#include "weft/v1/finding.grpc.pb.h"
#include "weft/v1/fleet.grpc.pb.h"
#include "weft/v1/maintenance.grpc.pb.h"

namespace weft {

// The same code and message, the message as valid UTF-8 of at most 4 KiB.
grpc::Status ToGrpcStatus(const absl::Status& status);

class FleetService final : public v1::FleetService::CallbackService {
 public:
  // `queries` must outlive the service; so for the others.
  explicit FleetService(Queries& queries) : queries_(queries) {}
  grpc::ServerUnaryReactor* ListNodes(grpc::CallbackServerContext* context,
                                      const v1::ListNodesRequest* request,
                                      v1::ListNodesResponse* response) override;
  grpc::ServerUnaryReactor* GetNode(grpc::CallbackServerContext* context, const v1::GetNodeRequest* request,
                                    v1::GetNodeResponse* response) override;
  grpc::ServerUnaryReactor* ListSlowNodes(grpc::CallbackServerContext* context,
                                          const v1::ListSlowNodesRequest* request,
                                          v1::ListSlowNodesResponse* response) override;
  grpc::ServerUnaryReactor* ListNodeHistory(grpc::CallbackServerContext* context,
                                            const v1::ListNodeHistoryRequest* request,
                                            v1::ListNodeHistoryResponse* response) override;
  grpc::ServerUnaryReactor* ListRuns(grpc::CallbackServerContext* context, const v1::ListRunsRequest* request,
                                     v1::ListRunsResponse* response) override;
  grpc::ServerUnaryReactor* GetRun(grpc::CallbackServerContext* context, const v1::GetRunRequest* request,
                                   v1::GetRunResponse* response) override;
  grpc::ServerUnaryReactor* RemoveNode(grpc::CallbackServerContext* context,
                                       const v1::RemoveNodeRequest* request,
                                       v1::RemoveNodeResponse* response) override;

 private:
  Queries& queries_;
};

class ServerService final : public v1::ServerService::CallbackService {
 public:
  explicit ServerService(Queries& queries) : queries_(queries) {}
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* response) override;

 private:
  Queries& queries_;
};

class FindingService final : public v1::FindingService::CallbackService {
 public:
  explicit FindingService(Queries& queries) : queries_(queries) {}
  grpc::ServerUnaryReactor* ListFindings(grpc::CallbackServerContext* context,
                                         const v1::ListFindingsRequest* request,
                                         v1::ListFindingsResponse* response) override;
  grpc::ServerUnaryReactor* GetFinding(grpc::CallbackServerContext* context,
                                       const v1::GetFindingRequest* request,
                                       v1::GetFindingResponse* response) override;

 private:
  Queries& queries_;
};

class AlertService final : public v1::AlertService::CallbackService {
 public:
  explicit AlertService(Queries& queries) : queries_(queries) {}
  grpc::ServerUnaryReactor* ListDeliveries(grpc::CallbackServerContext* context,
                                           const v1::ListDeliveriesRequest* request,
                                           v1::ListDeliveriesResponse* response) override;

 private:
  Queries& queries_;
};

class MaintenanceService final : public v1::MaintenanceService::CallbackService {
 public:
  explicit MaintenanceService(Queries& queries) : queries_(queries) {}
  grpc::ServerUnaryReactor* CreateMaintenanceWindow(grpc::CallbackServerContext* context,
                                                    const v1::CreateMaintenanceWindowRequest* request,
                                                    v1::CreateMaintenanceWindowResponse* response) override;
  grpc::ServerUnaryReactor* ListMaintenanceWindows(grpc::CallbackServerContext* context,
                                                   const v1::ListMaintenanceWindowsRequest* request,
                                                   v1::ListMaintenanceWindowsResponse* response) override;
  grpc::ServerUnaryReactor* EndMaintenanceWindow(grpc::CallbackServerContext* context,
                                                 const v1::EndMaintenanceWindowRequest* request,
                                                 v1::EndMaintenanceWindowResponse* response) override;

 private:
  Queries& queries_;
};

// All of them over one Queries, which must outlive this; this must outlive the server that serves it.
struct OperatorServices {
  explicit OperatorServices(Queries& queries)
      : fleet(queries), server(queries), finding(queries), alert(queries), maintenance(queries) {}
  void Register(grpc::ServerBuilder& builder);

  FleetService fleet;
  ServerService server;
  FindingService finding;
  AlertService alert;
  MaintenanceService maintenance;
};

}  // namespace weft
