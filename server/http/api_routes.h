// The JSON API: operators' questions over HTTP, read-only.
#pragma once

#include "server/api/queries.h"
#include "server/http/router.h"

namespace weft {

// Adds /api/v1/…: nodes, nodes/{node}, nodes/{node}/history, nodes:slow, runs, findings, findings/{id},
// deliveries, maintenanceWindows, status. Query parameters carry the names of the request's fields, and for
// short `open` (open_only), `below` (below_ratio) and `since` (since_time, RFC 3339); an unknown one is
// refused. `queries` outlives the router.
void AddApiRoutes(Queries& queries, Router& router);

}  // namespace weft
