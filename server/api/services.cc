#include "server/api/services.h"

#include <exception>
#include <string>
#include <utility>

#include "base/text.h"

namespace weft {
namespace {

using Context = grpc::CallbackServerContext;
constexpr size_t kMaxMessageBytes = 4096;

// Runs one handler of Queries unless nobody waits for it any more. Exceptions (out of memory) end here.
template <typename Request, typename Response>
grpc::Status Run(Context* context, Queries& queries,
                 absl::StatusOr<Response> (Queries::*handler)(const Request&), const Request& request,
                 Response* response) try {
  if (context->IsCancelled()) return grpc::Status(grpc::StatusCode::CANCELLED, "the caller has gone");
  absl::StatusOr<Response> answer = (queries.*handler)(request);
  if (!answer.ok()) return ToGrpcStatus(answer.status());
  response->Swap(&*answer);
  return grpc::Status::OK;
} catch (const std::exception& e) {
  return grpc::Status(grpc::StatusCode::INTERNAL, ToValidUtf8(e.what()));
}

template <typename Request, typename Response>
grpc::ServerUnaryReactor* Answer(Context* context, Queries& queries,
                                 absl::StatusOr<Response> (Queries::*handler)(const Request&),
                                 const Request* request, Response* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(Run(context, queries, handler, *request, response));
  return reactor;
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      CutUtf8(ToValidUtf8(status.message()), kMaxMessageBytes));
}

grpc::ServerUnaryReactor* FleetService::ListNodes(Context* context, const v1::ListNodesRequest* request,
                                                  v1::ListNodesResponse* response) {
  return Answer(context, queries_, &Queries::ListNodes, request, response);
}

grpc::ServerUnaryReactor* FleetService::GetNode(Context* context, const v1::GetNodeRequest* request,
                                                v1::GetNodeResponse* response) {
  return Answer(context, queries_, &Queries::GetNode, request, response);
}

grpc::ServerUnaryReactor* FleetService::ListSlowNodes(Context* context,
                                                      const v1::ListSlowNodesRequest* request,
                                                      v1::ListSlowNodesResponse* response) {
  return Answer(context, queries_, &Queries::ListSlowNodes, request, response);
}

grpc::ServerUnaryReactor* FleetService::ListNodeHistory(Context* context,
                                                        const v1::ListNodeHistoryRequest* request,
                                                        v1::ListNodeHistoryResponse* response) {
  return Answer(context, queries_, &Queries::ListNodeHistory, request, response);
}

grpc::ServerUnaryReactor* FleetService::ListRuns(Context* context, const v1::ListRunsRequest* request,
                                                 v1::ListRunsResponse* response) {
  return Answer(context, queries_, &Queries::ListRuns, request, response);
}

grpc::ServerUnaryReactor* FleetService::GetRun(Context* context, const v1::GetRunRequest* request,
                                               v1::GetRunResponse* response) {
  return Answer(context, queries_, &Queries::GetRun, request, response);
}

grpc::ServerUnaryReactor* FleetService::RemoveNode(Context* context, const v1::RemoveNodeRequest* request,
                                                   v1::RemoveNodeResponse* response) {
  return Answer(context, queries_, &Queries::RemoveNode, request, response);
}

grpc::ServerUnaryReactor* ServerService::GetStatus(Context* context, const v1::GetStatusRequest* request,
                                                   v1::GetStatusResponse* response) {
  return Answer(context, queries_, &Queries::GetStatus, request, response);
}

grpc::ServerUnaryReactor* FindingService::ListFindings(Context* context,
                                                       const v1::ListFindingsRequest* request,
                                                       v1::ListFindingsResponse* response) {
  return Answer(context, queries_, &Queries::ListFindings, request, response);
}

grpc::ServerUnaryReactor* FindingService::GetFinding(Context* context, const v1::GetFindingRequest* request,
                                                     v1::GetFindingResponse* response) {
  return Answer(context, queries_, &Queries::GetFinding, request, response);
}

grpc::ServerUnaryReactor* AlertService::ListDeliveries(Context* context,
                                                       const v1::ListDeliveriesRequest* request,
                                                       v1::ListDeliveriesResponse* response) {
  return Answer(context, queries_, &Queries::ListDeliveries, request, response);
}

grpc::ServerUnaryReactor* MaintenanceService::CreateMaintenanceWindow(
    Context* context, const v1::CreateMaintenanceWindowRequest* request,
    v1::CreateMaintenanceWindowResponse* response) {
  return Answer(context, queries_, &Queries::CreateMaintenanceWindow, request, response);
}

grpc::ServerUnaryReactor* MaintenanceService::ListMaintenanceWindows(
    Context* context, const v1::ListMaintenanceWindowsRequest* request,
    v1::ListMaintenanceWindowsResponse* response) {
  return Answer(context, queries_, &Queries::ListMaintenanceWindows, request, response);
}

grpc::ServerUnaryReactor* MaintenanceService::EndMaintenanceWindow(
    Context* context, const v1::EndMaintenanceWindowRequest* request,
    v1::EndMaintenanceWindowResponse* response) {
  return Answer(context, queries_, &Queries::EndMaintenanceWindow, request, response);
}

void OperatorServices::Register(grpc::ServerBuilder& builder) {
  builder.RegisterService(&fleet);
  builder.RegisterService(&server);
  builder.RegisterService(&finding);
  builder.RegisterService(&alert);
  builder.RegisterService(&maintenance);
}

}  // namespace weft
