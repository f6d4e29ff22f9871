// weft server …
#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/text_of.h"
#include "cli/time_text.h"
#include "cli/version.h"
#include "weft/v1/fleet.grpc.pb.h"

namespace weft::cli {
namespace {

std::string MegabytesText(uint64_t bytes) { return absl::StrCat(bytes / 1000000, " MB"); }

Card StatusCard(const v1::GetStatusResponse& status, absl::Time now) {
  const absl::Time start = TimeOf(status.has_start_time(), status.start_time());
  Card card;
  card.Add("version", status.version());
  card.Add("started", absl::StrCat(AgeText(start, now), "  ", LocalTimeText(start, LocalZone())));
  card.Add("nodes", absl::StrCat(status.nodes()));
  card.Add("connected agents", absl::StrCat(status.connected_agents()));
  card.Add("open findings", absl::StrCat(status.open_findings()));
  card.Add("notifications waiting", absl::StrCat(status.outbox_pending()));
  card.Add("rounds", absl::StrCat(status.rounds()));
  card.Add("results stored", absl::StrCat(status.results_stored()));
  card.Add("results not yet judged", absl::StrCat(status.detector_lag_results()));
  card.Add("records refused", absl::StrCat(status.records_rejected()));
  card.Add("records repeated", absl::StrCat(status.records_duplicate()));
  card.Add("records lost", absl::StrCat(status.records_lost()));
  card.Add("database", MegabytesText(status.store_bytes()));
  card.Add("memory", MegabytesText(status.resident_bytes()));
  return card;
}

absl::Status ServerStatus(Context& context) {
  const auto answer = Call(context, &v1::ServerService::Stub::GetStatus, v1::GetStatusRequest());
  if (!answer.ok()) return answer.status();
  if (context.WantsJson()) return context.PrintJson(*answer);
  context.Print(StatusCard(*answer, context.Now()).Render(context.Output()));
  if (answer->version() != Version()) {
    context.Say(absl::StrCat("note: this weft is version ", Version(), ", the server another"));
  }
  return absl::OkStatus();
}

}  // namespace

void AddServerCommands(CLI::App& app, Context& context) {
  CLI::App& noun = AddNoun(app, "server", "The server itself");
  AddVerb(noun, "status", "Version, uptime, sizes and counters",
          "  weft server status\n  weft server status --server weft.example:7443", context,
          [&context] { return ServerStatus(context); });
}

}  // namespace weft::cli
