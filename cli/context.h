// What every command needs: the global flags, the client, the way out. Used by one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/client.h"
#include "cli/exit_code.h"
#include "cli/output.h"

namespace weft::cli {

// As typed; checked when first used.
struct GlobalFlags {
  ClientOptions client;
  std::string timeout = "30s";
  std::string format = "table";
  bool no_color = false;
  bool verbose = false;
};

// Who runs this, as USER says; empty when it is not set or not UTF-8.
std::string OwnUser();

class Context {
 public:
  GlobalFlags& flags() { return flags_; }

  // The connection, made on first use.
  absl::StatusOr<Client*> Connect();
  // How to print, as the flags say.
  OutputOptions Output() const;
  bool WantsJson() const { return flags_.format == "json"; }
  absl::Time Now() const;

  // Standard output: the answer and nothing else.
  void Print(absl::string_view text) const;
  absl::Status PrintJson(const google::protobuf::Message& message) const;
  // Standard error: words about it.
  void Say(absl::string_view text) const;
  // "error: …" on standard error, with the status name when verbose.
  void SayError(const absl::Status& status) const;

  // The command that was chosen; run after parsing.
  void Choose(std::function<absl::Status()> command) { command_ = std::move(command); }
  // Runs it; the exit code.
  int RunCommand();
  // The answer is not whole: kPartial instead of kOk.
  void MarkPartial() { partial_ = true; }
  // The command's own exit code, for commands that have a scheme of their own.
  void ExitWith(int code) { exit_code_ = code; }

 private:
  GlobalFlags flags_;
  std::unique_ptr<Client> client_;
  std::function<absl::Status()> command_;
  std::optional<int> exit_code_;
  bool partial_ = false;
};

// Calls once.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Call(Context& context,
                              grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                              const Request& request) {
  const auto client = context.Connect();
  if (!client.ok()) return client.status();
  return (*client)->Call(method, request);
}

inline constexpr int kLargestPage = 1000;

// Calls a List method page by page until `limit` rows came (0: all) and merges the pages. `count` gives the
// rows of an answer. When a later page fails, what came before is returned and the context marked partial.
template <typename Stub, typename Request, typename Response, typename Count>
absl::StatusOr<Response> FetchAll(Context& context,
                                  grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                               Response*),
                                  Request request, int limit, Count count) {
  Response all;
  while (true) {
    const int left = limit == 0 ? kLargestPage : limit - count(all);
    request.set_page_size(left < kLargestPage ? left : kLargestPage);
    const absl::StatusOr<Response> page = Call(context, method, request);
    if (!page.ok() && count(all) == 0) return page.status();
    if (!page.ok()) {
      context.MarkPartial();
      context.SayError(page.status());
      return all;
    }
    all.MergeFrom(*page);
    all.set_next_page_token(page->next_page_token());
    request.set_page_token(page->next_page_token());
    if (page->next_page_token().empty()) return all;
    if (limit != 0 && count(all) >= limit) break;
  }
  context.Say("More exist; --limit 0 shows all.");
  return all;
}

}  // namespace weft::cli
