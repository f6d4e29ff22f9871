// Logs for tests, made after the shapes that NCCL's versions print. Hosts and addresses are invented.
#pragma once

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gtest/gtest.h"

namespace weft {

inline std::string TestLog(const std::string& name) {
  const char* source = getenv("WEFT_SOURCE_DIR");
  const std::string path =
      absl::StrCat(source == nullptr ? "." : source, "/agent/probes/transport/testdata/", name);
  const absl::StatusOr<std::string> text = ReadFile(path);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

}  // namespace weft
