// weft maintenance …
#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/id.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/text_of.h"
#include "cli/time_text.h"
#include "cli/window_request.h"
#include "weft/v1/maintenance.grpc.pb.h"

namespace weft::cli {
namespace {

using Stub = v1::MaintenanceService::Stub;
constexpr int kMostMatched = 100;

std::string StateText(const v1::MaintenanceWindow& window) {
  return ShortName(v1::WindowState_Name(window.state()), "WINDOW_STATE_");
}

std::string MatchedText(const v1::MaintenanceWindow& window) {
  const int count = window.matched_hostnames_size();
  return absl::StrCat(count, count >= kMostMatched ? " or more" : "");
}

std::string StartText(const v1::MaintenanceWindow& window) {
  return LocalTimeText(TimeOf(window.has_occurrence_start_time(), window.occurrence_start_time()),
                       LocalZone());
}

std::string EndText(const v1::MaintenanceWindow& window) {
  return LocalTimeText(TimeOf(window.has_occurrence_end_time(), window.occurrence_end_time()), LocalZone());
}

Table WindowTable(const v1::ListMaintenanceWindowsResponse& answer) {
  Table table({{"WINDOW"},
               {"STATE"},
               {"START"},
               {"END"},
               {"NODES", true},
               {"BY"},
               {"REASON", false, false, true},
               {"KIND", false, true},
               {"REVISION", true, true},
               {"ENDED-BY", false, true}});
  for (const v1::MaintenanceWindow& each : answer.windows()) {
    const bool active = each.state() == v1::WINDOW_STATE_ACTIVE;
    table.AddRow({each.window_id(), Cell(StateText(each), active ? Color::kDoubt : Color::kNone),
                  StartText(each), EndText(each), MatchedText(each), each.created_by(), each.reason(),
                  each.has_weekly() ? "weekly" : "one-off", absl::StrCat(each.revision()), each.ended_by()});
  }
  return table;
}

absl::Status List(Context& context, bool all, int limit) {
  v1::ListMaintenanceWindowsRequest request;
  request.set_include_ended(all);
  const auto answer = FetchAll(context, &Stub::ListMaintenanceWindows, request, limit,
                               [](const auto& page) { return page.windows_size(); });
  if (!answer.ok()) return answer.status();
  if (context.WantsJson()) return context.PrintJson(*answer);
  context.Print(WindowTable(*answer).Render(context.Output()));
  return absl::OkStatus();
}

// What a new window does, and how to undo it.
void SayCreated(const Context& context, const v1::MaintenanceWindow& window) {
  const bool active = window.state() == v1::WINDOW_STATE_ACTIVE;
  const std::string from = active ? "" : absl::StrCat(" from ", StartText(window));
  context.Say(absl::StrCat(active ? "Muted " : "Will mute ", MatchedText(window), " nodes", from, " until ",
                           EndText(window), ". Undo: weft maintenance end ",
                           EscapeControl(window.window_id())));
  if (window.matched_hostnames().empty()) {
    context.Say("warning: no known node matches now; nodes that come later and match will be muted");
  }
}

absl::Status Create(Context& context, const WindowFlags& flags) {
  const auto window = BuildWindow(flags, context.Now(), LocalZone());
  if (!window.ok()) return window.status();
  v1::CreateMaintenanceWindowRequest request;
  *request.mutable_window() = *window;
  request.set_request_id(RandomUuid());
  const auto answer = Call(context, &Stub::CreateMaintenanceWindow, request);
  if (!answer.ok()) return answer.status();
  SayCreated(context, answer->window());
  if (context.WantsJson()) return context.PrintJson(*answer);
  context.Print(absl::StrCat(EscapeControl(answer->window().window_id()), "\n"));
  return absl::OkStatus();
}

struct EndFlags {
  std::string id;
  std::string by = OwnUser();
  uint64_t revision = 0;
};

absl::Status End(Context& context, const EndFlags& flags) {
  if (flags.by.empty()) return absl::InvalidArgumentError("say who: --by NAME (USER is not set)");
  v1::EndMaintenanceWindowRequest request;
  request.set_window_id(flags.id);
  request.set_ended_by(flags.by);
  request.set_revision(flags.revision);
  const auto answer = Call(context, &Stub::EndMaintenanceWindow, request);
  if (!answer.ok()) return answer.status();
  context.Say(absl::StrCat("Window ", EscapeControl(answer->window().window_id()), " is over (",
                           StateText(answer->window()), ")."));
  return context.WantsJson() ? context.PrintJson(*answer) : absl::OkStatus();
}

void AddWhen(CLI::App& verb, WindowFlags& flags) {
  verb.add_option("--start", flags.start,
                  "First muted moment: now, 22:00, \"2026-12-01 22:00\", RFC 3339 [now]");
  verb.add_option("--end", flags.end, "First moment that is not muted any more");
  verb.add_option("--for", flags.length, "Or its length: 30m, 6h, 2d");
  verb.add_option("--weekly", flags.weekly, "Every week on these days: Mon,Tue or Mon-Fri");
  verb.add_option("--at", flags.at, "Local start on those days: 22:00");
  verb.add_option("--tz", flags.zone, "Zone of all times given: Europe/Berlin [this machine's]");
  verb.add_option("--until", flags.until, "Last day of a weekly window, at most a year ahead");
}

void AddCreate(CLI::App& noun, Context& context) {
  auto flags = std::make_shared<WindowFlags>();
  flags->by = OwnUser();
  CLI::App& verb =
      AddVerb(noun, "create", "Mute notifications for a while; probing and detection go on",
              "  weft maintenance create --nodes gpu[001-016] --for 2h --reason \"replace switch\"\n"
              "  weft maintenance create --match rack=r12 --start 22:00 --end 06:00 --reason recabling\n"
              "  weft maintenance create --match leaf=leaf-07 --weekly Tue --at 22:00 --for 6h \\\n"
              "      --tz Europe/Berlin --until 2027-06-30 --reason \"weekly firmware slot\"",
              context, [&context, flags] { return Create(context, *flags); });
  verb.add_option("--nodes", flags->nodes, "Hostlist or globs: gpu[001-004,7],login*");
  verb.add_option("--match", flags->matches, "label=v1,v2 or label!=v1; all must hold; may be repeated")
      ->expected(1)
      ->take_all();
  AddWhen(verb, *flags);
  verb.add_option("--reason", flags->reason, "Why")->required();
  verb.add_option("--by", flags->by, "Who [$USER]");
}

void AddEnd(CLI::App& noun, Context& context) {
  auto flags = std::make_shared<EndFlags>();
  CLI::App& verb = AddVerb(noun, "end", "End a window now, or cancel it before it starts",
                           "  weft maintenance end mw-7f3a09c2", context,
                           [&context, flags] { return End(context, *flags); });
  verb.add_option("ID", flags->id, "As maintenance list shows it")->required();
  verb.add_option("--by", flags->by, "Who [$USER]");
  verb.add_option("--revision", flags->revision, "Only if it still has this revision");
}

}  // namespace

void AddMaintenanceCommands(CLI::App& app, Context& context) {
  struct Flags {
    bool all = false;
    int limit = 0;
  };
  CLI::App& noun = AddNoun(app, "maintenance", "Maintenance windows: nobody is notified");
  auto flags = std::make_shared<Flags>();
  CLI::App& list = AddVerb(noun, "list", "Windows that are not over, newest first",
                           "  weft maintenance list\n  weft maintenance list --all -o json", context,
                           [&context, flags] { return List(context, flags->all, flags->limit); });
  list.add_flag("--all", flags->all, "Also those that are over");
  AddLimit(list, &flags->limit);
  AddCreate(noun, context);
  AddEnd(noun, context);
}

}  // namespace weft::cli
