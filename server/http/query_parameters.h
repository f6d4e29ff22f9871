// Reads the query of a request into typed values. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace weft {

// Take leaves `out` alone when the parameter is absent. The first error is kept and told by Finish.
class QueryParameters {
 public:
  explicit QueryParameters(std::map<std::string, std::string> query) : rest_(std::move(query)) {}

  void Take(absl::string_view name, std::string* out);
  void Take(absl::string_view name, int32_t* out);
  void Take(absl::string_view name, double* out);      // finite
  void Take(absl::string_view name, bool* out);        // true, false, 1, 0, or nothing for true
  void Take(absl::string_view name, absl::Time* out);  // RFC 3339

  // kInvalidArgument for a value that does not parse, or a parameter that nobody took.
  absl::Status Finish() const;

 private:
  template <typename T, typename Parse>
  void TakeAs(absl::string_view name, absl::string_view what, T* out, Parse parse);

  std::map<std::string, std::string> rest_;
  absl::Status status_;
};

}  // namespace weft
