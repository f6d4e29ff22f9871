#include "server/http/operations_routes.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "server/http/host_port.h"
#include "server/http/json.h"

namespace weft {
namespace {

using google::protobuf::ListValue;
using google::protobuf::Struct;

constexpr char kMetricsAddress[] = "metrics_address";
constexpr char kTextFormat[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr char kPlainText[] = "text/plain; charset=utf-8";

// HOST:PORT with the host replaced where it only says "any". Nullopt for anything else.
std::optional<std::string> Target(const std::string& address, const std::string& hostname) {
  auto parsed = ParseHostPort(address);
  if (!parsed || parsed->port == 0) return std::nullopt;
  if (parsed->host.empty() || parsed->host == "0.0.0.0" || parsed->host == "::") {
    *parsed = {hostname, parsed->port, false};
  }
  const std::string target = parsed->ToString();
  if (parsed->host.empty() || !IsSafeName(target)) return std::nullopt;
  return target;
}

std::string MetricsAddress(const v1::Node& node) {
  auto version = node.versions().find(kMetricsAddress);
  if (version != node.versions().end()) return version->second;
  auto label = node.labels().find(kMetricsAddress);
  return label == node.labels().end() ? "" : label->second;
}

void AddTarget(const std::string& target, const char* role, const std::string& node, ListValue& groups) {
  auto& group = *groups.add_values()->mutable_struct_value()->mutable_fields();
  group["targets"].mutable_list_value()->add_values()->set_string_value(target);
  auto& labels = *group["labels"].mutable_struct_value()->mutable_fields();
  labels["__meta_weft_role"].set_string_value(role);
  if (!node.empty()) labels["node"].set_string_value(node);
}

HttpResponse ReadyResponse(const absl::Status& ready) {
  if (ready.ok()) return {200, kPlainText, "ready\n", {}};
  return {
      503, kPlainText, absl::StrCat("not ready: ", EscapeControl(ToValidUtf8(ready.message())), "\n"), {}};
}

}  // namespace

std::string DiscoveryJson(absl::string_view host, const std::vector<v1::NodeStatus>& nodes) {
  ListValue groups;
  if (auto target = Target(std::string(host), "")) AddTarget(*target, "server", "", groups);
  for (const v1::NodeStatus& status : nodes) {
    const std::string hostname = ToValidUtf8(status.node().hostname());
    const std::string address = MetricsAddress(status.node());
    if (address.empty()) continue;
    if (auto target = Target(address, hostname)) AddTarget(*target, "agent", hostname, groups);
  }
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(groups, &json).ok()) json = "[]";
  return json;
}

void AddOperationsRoutes(const OperationsRoutes& parts, Router& router) {
  router.Get("/metrics", [parts](const HttpRequest&) -> HttpResponse {
    return {200, kTextFormat, RenderMetrics(parts.source.Collect(), parts.counters), {}};
  });
  router.Get("/sd/prometheus", [parts](const HttpRequest& request) -> HttpResponse {
    auto nodes = parts.queries.AllNodes();
    // Prometheus keeps its last list when discovery fails; an empty one would drop all targets.
    if (!nodes.ok()) return ErrorResponse(nodes.status());
    return {200, "application/json", DiscoveryJson(request.host, *nodes), {}};
  });
  router.Get("/healthz", [](const HttpRequest&) -> HttpResponse { return {200, kPlainText, "ok\n", {}}; });
  router.Get("/readyz", [parts](const HttpRequest&) { return ReadyResponse(parts.ready()); });
}

}  // namespace weft
