#include "server/http/api_routes.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "convert/convert.h"
#include "server/http/json.h"
#include "server/http/query_parameters.h"

namespace weft {
namespace {

template <typename Request>
void TakePage(QueryParameters& query, Request& request) {
  int32_t size = 0;
  query.Take("page_size", &size);
  query.Take("page_token", request.mutable_page_token());
  request.set_page_size(size);
}

bool TakeFlag(QueryParameters& query, absl::string_view name, absl::string_view short_name = "") {
  bool flag = false;
  query.Take(name, &flag);
  if (!short_name.empty()) query.Take(short_name, &flag);
  return flag;
}

// `fill` reads path and query into the request; `method` answers it.
template <typename Request, typename Response, typename Fill>
void Add(Router& router, Queries& queries, absl::string_view pattern,
         absl::StatusOr<Response> (Queries::*method)(const Request&), Fill fill) {
  router.Get(pattern, [&queries, method, fill](const HttpRequest& http) {
    Request request;
    QueryParameters query(http.query);
    fill(http, query, request);
    const absl::Status valid = query.Finish();
    return valid.ok() ? JsonResponse((queries.*method)(request)) : ErrorResponse(valid);
  });
}

void FillSlow(const HttpRequest&, QueryParameters& query, v1::ListSlowNodesRequest& request) {
  double below = 0;
  query.Take("below_ratio", &below);
  query.Take("below", &below);
  request.set_below_ratio(below);
  TakePage(query, request);
}

void FillHistory(const HttpRequest& http, QueryParameters& query, v1::ListNodeHistoryRequest& request) {
  request.set_node(http.path_parameters.at("node"));
  absl::Time since = absl::InfinitePast();
  query.Take("since_time", &since);
  query.Take("since", &since);
  if (since != absl::InfinitePast()) ToProto(since, request.mutable_since_time());
  TakePage(query, request);
}

void FillFindings(const HttpRequest&, QueryParameters& query, v1::ListFindingsRequest& request) {
  request.set_open_only(TakeFlag(query, "open_only", "open"));
  request.set_include_info(TakeFlag(query, "include_info"));
  query.Take("node", request.mutable_node());
  TakePage(query, request);
}

void AddNodeRoutes(Queries& queries, Router& router) {
  Add(router, queries, "/api/v1/nodes", &Queries::ListNodes,
      [](const HttpRequest&, QueryParameters& query, v1::ListNodesRequest& request) {
        TakePage(query, request);
      });
  Add(router, queries, "/api/v1/nodes:slow", &Queries::ListSlowNodes, FillSlow);
  Add(router, queries, "/api/v1/nodes/{node}", &Queries::GetNode,
      [](const HttpRequest& http, QueryParameters&, v1::GetNodeRequest& request) {
        request.set_node(http.path_parameters.at("node"));
      });
  Add(router, queries, "/api/v1/nodes/{node}/history", &Queries::ListNodeHistory, FillHistory);
}

void AddFindingRoutes(Queries& queries, Router& router) {
  Add(router, queries, "/api/v1/findings", &Queries::ListFindings, FillFindings);
  Add(router, queries, "/api/v1/findings/{id}", &Queries::GetFinding,
      [](const HttpRequest& http, QueryParameters&, v1::GetFindingRequest& request) {
        request.set_finding_id(http.path_parameters.at("id"));
      });
  Add(router, queries, "/api/v1/deliveries", &Queries::ListDeliveries,
      [](const HttpRequest&, QueryParameters& query, v1::ListDeliveriesRequest& request) {
        query.Take("finding_id", request.mutable_finding_id());
        TakePage(query, request);
      });
}

void AddOtherRoutes(Queries& queries, Router& router) {
  Add(router, queries, "/api/v1/runs", &Queries::ListRuns,
      [](const HttpRequest&, QueryParameters& query, v1::ListRunsRequest& request) {
        query.Take("node", request.mutable_node());
        query.Take("probe", request.mutable_probe());
        absl::Time since = absl::InfinitePast();
        query.Take("since_time", &since);
        query.Take("since", &since);
        if (since != absl::InfinitePast()) ToProto(since, request.mutable_since_time());
        TakePage(query, request);
      });
  Add(router, queries, "/api/v1/runs/{id}", &Queries::GetRun,
      [](const HttpRequest& http, QueryParameters&, v1::GetRunRequest& request) {
        request.set_run_id(http.path_parameters.at("id"));
      });
  Add(router, queries, "/api/v1/maintenanceWindows", &Queries::ListMaintenanceWindows,
      [](const HttpRequest&, QueryParameters& query, v1::ListMaintenanceWindowsRequest& request) {
        request.set_include_ended(TakeFlag(query, "include_ended"));
        TakePage(query, request);
      });
  Add(router, queries, "/api/v1/status", &Queries::GetStatus,
      [](const HttpRequest&, QueryParameters&, v1::GetStatusRequest&) {});
}

}  // namespace

void AddApiRoutes(Queries& queries, Router& router) {
  AddNodeRoutes(queries, router);
  AddFindingRoutes(queries, router);
  AddOtherRoutes(queries, router);
}

}  // namespace weft
