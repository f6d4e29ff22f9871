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
  std::string probe;
  std::string since;
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
  request.set_probe(flags.probe);
  if (!flags.since.empty()) {
    const auto since = ParseSince(flags.since, context.Now(), LocalZone());
    if (!since.ok()) return since.status();
    request.mutable_since_time()->set_seconds(absl::ToUnixSeconds(*since));
  }
  const auto answer = FetchAll(context, &v1::FleetService::Stub::ListRuns, request, flags.limit,
                               [](const auto& page) { return page.runs_size(); });
  if (!answer.ok()) return answer.status();
  if (context.WantsJson()) return context.PrintJson(*answer);
  context.Print(RunTable(*answer, context.Now()).Render(context.Output()));
  return absl::OkStatus();
}

Card RunCard(const v1::Run& run, absl::Time now) {
  const absl::Time time = TimeOf(run.has_plan_time(), run.plan_time());
  const absl::Time end = TimeOf(run.has_end_time(), run.end_time());
  Card card;
  card.Add("run", run.run_id());
  card.Add("state", ShortName(v1::RunState_Name(run.state()), "RUN_STATE_"));
  card.Add("detail", run.detail());
  card.Add("probe", run.spec().name());
  card.Add("round", absl::StrCat(run.round()));
  card.Add("planned", absl::StrCat(AgeText(time, now), "  ", LocalTimeText(time, LocalZone())));
  if (run.has_end_time())
    card.Add("ended", absl::StrCat(AgeText(end, now), "  ", LocalTimeText(end, LocalZone())));
  return card;
}

Table ParticipantTable(const v1::Run& run) {
  Table table({{"RANK", true},
               {"NODE"},
               {"OUTCOME"},
               {"BANDWIDTH", true},
               {"PROVIDER"},
               {"DETAIL", false, false, true}});
  for (const v1::RunParticipant& each : run.participants()) {
    const v1::Result& result = each.result();
    const std::string outcome =
        each.has_result() ? ShortName(v1::Outcome_Name(result.outcome()), "OUTCOME_") : "";
    table.AddRow({absl::StrCat(each.rank()), each.hostname(),
                  Cell(outcome, result.outcome() == v1::OUTCOME_OK ? Color::kGood : Color::kDoubt),
                  BestBandwidthText(result.measurements()), result.provider(), result.detail()});
  }
  return table;
}

absl::Status RunGet(Context& context, const std::string& id) {
  v1::GetRunRequest request;
  request.set_run_id(id);
  const auto answer = Call(context, &v1::FleetService::Stub::GetRun, request);
  if (!answer.ok()) return answer.status();
  if (context.WantsJson()) return context.PrintJson(*answer);
  context.Print(RunCard(answer->run(), context.Now()).Render(context.Output()));
  context.Print(absl::StrCat("\n", ParticipantTable(answer->run()).Render(context.Output())));
  return absl::OkStatus();
}

}  // namespace

void AddRunCommands(CLI::App& app, Context& context) {
  CLI::App& noun = AddNoun(app, "run", "Runs: executions of probes");
  auto flags = std::make_shared<Flags>();
  CLI::App& list = AddVerb(noun, "list", "Runs, newest first",
                           "  weft run list\n  weft run list --node gpu017 --limit 20\n"
                           "  weft run list --probe fabric_write --since 6h",
                           context, [&context, flags] { return RunList(context, *flags); });
  list.add_option("--node", flags->node, "Only runs with this node (hostname or id)");
  list.add_option("--probe", flags->probe, "Only runs of the probe of this name");
  list.add_option("--since", flags->since, "6h, 2d, \"2026-12-01 22:00\" or RFC 3339");
  AddLimit(list, &flags->limit);
  auto id = std::make_shared<std::string>();
  CLI::App& get = AddVerb(noun, "get", "One run with each participant's result", "  weft run get ID", context,
                          [&context, id] { return RunGet(context, *id); });
  get.add_option("ID", *id, "As run list -o wide shows it")->required();
}

}  // namespace weft::cli
