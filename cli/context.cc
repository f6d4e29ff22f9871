#include "cli/context.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/text.h"
#include "cli/time_text.h"

namespace weft::cli {
namespace {

void Write(std::FILE* file, absl::string_view text) { std::fwrite(text.data(), 1, text.size(), file); }

}  // namespace

std::string OwnUser() {
  const char* user = std::getenv("USER");
  return user == nullptr || !IsValidUtf8(user) ? "" : user;
}

absl::StatusOr<Client*> Context::Connect() {
  if (client_ != nullptr) return client_.get();
  const auto timeout = ParseDuration(flags_.timeout);
  if (!timeout.ok()) return timeout.status();
  flags_.client.timeout = *timeout;
  auto client = Client::Create(flags_.client);
  if (!client.ok()) return client.status();
  client_ = *std::move(client);
  return client_.get();
}

OutputOptions Context::Output() const {
  const Format format = flags_.format == "wide" ? Format::kWide : Format::kTable;
  return StandardOutput(WantsJson() ? Format::kJson : format, flags_.no_color);
}

absl::Time Context::Now() const { return Clock::Real().Now(); }

void Context::Print(absl::string_view text) const { Write(stdout, text); }

absl::Status Context::PrintJson(const google::protobuf::Message& message) const {
  const auto json = ToJson(message);
  if (!json.ok()) return json.status();
  Print(*json);
  return absl::OkStatus();
}

void Context::Say(absl::string_view text) const { Write(stderr, absl::StrCat(text, "\n")); }

void Context::SayError(const absl::Status& status) const {
  const std::string code =
      flags_.verbose ? absl::StrCat(" [", absl::StatusCodeToString(status.code()), "]") : "";
  Say(absl::StrCat("error: ", status.message(), code));
}

int Context::RunCommand() {
  if (!command_) return kOk;
  const absl::Status status = command_();
  if (!status.ok()) SayError(status);
  if (std::fflush(stdout) != 0) return kFailed;
  if (exit_code_) return *exit_code_;
  if (!status.ok()) return ExitCodeOf(status);
  return partial_ ? kPartial : kOk;
}

}  // namespace weft::cli
