// weft run …
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/commands.h"
#include "cli/text_of.h"
#include "cli/time_text.h"
#include "weft/v1/fleet.grpc.pb.h"

namespace weft::cli {
namespace {

struct Flags {
  std::string node;
  int limit = 100;
};

std::string Hostnames(const v1::Run& run) {
  std::vector<std::string> names;
  for (const v1::RunParticipant& each : run.participants()) names.push_back(each.hostname());
  return absl::StrJoin(names, " - ");
}

// One figure per participant, by rank.
std::string Bandwidths(const v1::Run& run) {
  std::vector<std::string> figures;
  for (const v1::RunParticipant& each : run.participants()) {
    const std::string figure = BestBandwidthText(each.result().measurements());
    if (!figure.empty()) figures.push_back(figure);
  }
  return absl::StrJoin(figures, ", ");
}

Table RunTable(const v1::ListRunsResponse& answer, absl::Time now) {
  Table table({{"AGE", true},
               {"STATE"},
               {"PROBE"},
               {"NODES"},
               {"ROUND", true},
               {"BANDWIDTH", true},
               {"DETAIL", false, false, true},
               {"TIME", false, true},
               {"END", false, true},
               {"RUN", false, true}});
  for (const v1::Run& run : answer.runs()) {
    const absl::Time time = TimeOf(run.has_plan_time(), run.plan_time());
    const absl::Time end = TimeOf(run.has_end_time(), run.end_time());
    const std::string state = ShortName(v1::RunState_Name(run.state()), "RUN_STATE_");
    table.AddRow({AgeText(time, now),
                  Cell(state, run.state() == v1::RUN_STATE_OK ? Color::kGood : Color::kDoubt),
                  run.spec().name(), Hostnames(run), absl::StrCat(run.round()), Bandwidths(run), run.detail(),
                  LocalTimeText(time, LocalZone()), LocalTimeText(end, LocalZone()), run.run_id()});
  }
  return table;
}

absl::Status RunList(Context& context, const Flags& flags) {
  v1::ListRunsRequest request;
  request.set_node(flags.node);
  const auto answer = FetchAll(context, &v1::FleetService::Stub::ListRuns, request, flags.limit,
                               [](const auto& page) { return page.runs_size(); });
  if (!answer.ok()) return answer.status();
  if (context.WantsJson()) return context.PrintJson(*answer);
  context.Print(RunTable(*answer, context.Now()).Render(context.Output()));
  return absl::OkStatus();
}

}  // namespace

void AddRunCommands(CLI::App& app, Context& context) {
  CLI::App& noun = AddNoun(app, "run", "Runs: executions of probes");
  auto flags = std::make_shared<Flags>();
  CLI::App& list =
      AddVerb(noun, "list", "Runs, newest first", "  weft run list\n  weft run list --node gpu017 --limit 20",
              context, [&context, flags] { return RunList(context, *flags); });
  list.add_option("--node", flags->node, "Only runs with this node (hostname or id)");
  AddLimit(list, &flags->limit);
}

}  // namespace weft::cli
