#include "server/http/page_routes.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "web/assets.h"

namespace weft {
namespace {

HttpResponse Serve(const WebAsset& asset, const HttpRequest& request) {
  const std::string tag = absl::StrCat("\"", asset.sha256, "\"");
  HttpResponse response{200, asset.content_type, "", {{"ETag", tag}, {"Cache-Control", "no-cache"}}};
  // Weak tags compare equal here: a proxy that compressed the answer makes the tag weak.
  const bool unchanged = request.if_none_match == tag || request.if_none_match == "W/" + tag;
  if (unchanged) {
    response.status = 304;
    response.content_type.clear();
  } else {
    response.body = std::string(asset.content);
  }
  return response;
}

}  // namespace

void AddPageRoutes(Router& router) {
  for (const WebAsset& asset : WebAssets()) {
    const Router::Handler serve = [&asset](const HttpRequest& request) { return Serve(asset, request); };
    router.Get(asset.path, serve);
    // Where notifications point to: the script reads the rest of the path.
    if (absl::string_view(asset.path) == "/") router.Get("/findings/{id}", serve);
  }
}

}  // namespace weft
