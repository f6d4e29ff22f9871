// weft delivery …
#include <memory>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/text_of.h"
#include "cli/time_text.h"
#include "weft/v1/finding.grpc.pb.h"

namespace weft::cli {
namespace {

struct Flags {
  std::string finding;
  int limit = 100;
};

Cell DeliveryStateCell(v1::DeliveryState state) {
  const std::string name = ShortName(v1::DeliveryState_Name(state), "DELIVERY_STATE_");
  if (state == v1::DELIVERY_STATE_DELIVERED) return Cell(name, Color::kGood);
  return Cell(name, state == v1::DELIVERY_STATE_DEAD ? Color::kBad : Color::kDoubt);
}

Table DeliveryTable(const v1::ListDeliveriesResponse& answer, absl::Time now) {
  Table table({{"AGE", true},
               {"RECEIVER"},
               {"ACTION"},
               {"STATE"},
               {"ATTEMPTS", true},
               {"HTTP", true},
               {"FINDING"},
               {"ERROR", false, false, true},
               {"DELIVERY", false, true},
               {"QUEUED", false, true},
               {"DELIVERED", false, true}});
  for (const v1::Delivery& each : answer.deliveries()) {
    const absl::Time queued = TimeOf(each.has_create_time(), each.create_time());
    const absl::Time delivered = TimeOf(each.has_deliver_time(), each.deliver_time());
    const std::string http = each.last_status() == 0 ? "" : absl::StrCat(each.last_status());
    table.AddRow({AgeText(queued, now), each.receiver(),
                  ShortName(v1::DeliveryAction_Name(each.action()), "DELIVERY_ACTION_"),
                  DeliveryStateCell(each.state()), absl::StrCat(each.attempts()), http, each.finding_id(),
                  each.last_error(), each.delivery_id(), LocalTimeText(queued, LocalZone()),
                  LocalTimeText(delivered, LocalZone())});
  }
  return table;
}

absl::Status DeliveryList(Context& context, const Flags& flags) {
  v1::ListDeliveriesRequest request;
  request.set_finding_id(flags.finding);
  const auto answer = FetchAll(context, &v1::AlertService::Stub::ListDeliveries, request, flags.limit,
                               [](const auto& page) { return page.deliveries_size(); });
  if (!answer.ok()) return answer.status();
  if (context.WantsJson()) return context.PrintJson(*answer);
  context.Print(DeliveryTable(*answer, context.Now()).Render(context.Output()));
  return absl::OkStatus();
}

}  // namespace

void AddDeliveryCommands(CLI::App& app, Context& context) {
  CLI::App& noun = AddNoun(app, "delivery", "Deliveries: what was sent to whom, and why not");
  auto flags = std::make_shared<Flags>();
  CLI::App& list = AddVerb(noun, "list", "Notifications, newest first",
                           "  weft delivery list\n  weft delivery list --finding ID -o wide", context,
                           [&context, flags] { return DeliveryList(context, *flags); });
  list.add_option("--finding", flags->finding, "Only of this finding");
  AddLimit(list, &flags->limit);
}

}  // namespace weft::cli
