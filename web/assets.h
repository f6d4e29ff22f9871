// The page's files, compiled in. Any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace weft {

struct WebAsset {
  const char* path;  // on the server: "/" or "/assets/NAME"
  const char* content_type;
  const char* sha256;  // of the content, hex
  absl::string_view content;
};

// All of them; lives for ever.
const std::vector<WebAsset>& WebAssets();

}  // namespace weft
