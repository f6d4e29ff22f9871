#include "server/http/query_parameters.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace weft {
namespace {

bool ParseFinite(absl::string_view text, double* out) {
  return absl::SimpleAtod(text, out) && std::isfinite(*out);
}

bool ParseFlag(absl::string_view text, bool* out) {
  if (!text.empty()) return absl::SimpleAtob(text, out);
  *out = true;
  return true;
}

bool ParseTime(absl::string_view text, absl::Time* out) {
  return absl::ParseTime(absl::RFC3339_full, text, out, nullptr) && *out != absl::InfiniteFuture() &&
         *out != absl::InfinitePast();
}

}  // namespace

template <typename T, typename Parse>
void QueryParameters::TakeAs(absl::string_view name, absl::string_view what, T* out, Parse parse) {
  auto found = rest_.find(std::string(name));
  if (found == rest_.end()) return;
  const std::string text = std::move(found->second);
  rest_.erase(found);
  T value{};
  if (parse(text, &value)) {
    *out = std::move(value);
  } else if (status_.ok()) {
    status_ = absl::InvalidArgumentError(absl::StrCat(name, "=", text, " is not ", what));
  }
}

void QueryParameters::Take(absl::string_view name, std::string* out) {
  TakeAs(name, "text", out, [](const std::string& text, std::string* value) {
    *value = text;
    return true;
  });
}

void QueryParameters::Take(absl::string_view name, int32_t* out) {
  TakeAs(name, "a whole number", out,
         [](const std::string& text, int32_t* value) { return absl::SimpleAtoi(text, value); });
}

void QueryParameters::Take(absl::string_view name, double* out) {
  TakeAs(name, "a number", out, ParseFinite);
}

void QueryParameters::Take(absl::string_view name, bool* out) {
  TakeAs(name, "true or false", out, ParseFlag);
}

void QueryParameters::Take(absl::string_view name, absl::Time* out) {
  TakeAs(name, "a time such as 2026-05-01T06:00:00Z", out, ParseTime);
}

absl::Status QueryParameters::Finish() const {
  if (!status_.ok() || rest_.empty()) return status_;
  return absl::InvalidArgumentError(absl::StrCat("unknown query parameter ", rest_.begin()->first));
}

}  // namespace weft
