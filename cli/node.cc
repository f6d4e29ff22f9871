// weft node …
#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/text_of.h"
#include "cli/time_text.h"
#include "weft/v1/fleet.grpc.pb.h"

namespace weft::cli {
namespace {

using Stub = v1::FleetService::Stub;

absl::Time LastSuccess(const v1::NodeStatus& status) {
  return TimeOf(status.has_last_success_time(), status.last_success_time());
}

absl::Time LastSeen(const v1::NodeStatus& status) {
  return TimeOf(status.has_last_seen_time(), status.last_seen_time());
}

std::string ClockText(const v1::NodeStatus& status) {
  const absl::Duration offset =
      absl::Seconds(status.clock_offset().seconds()) + absl::Nanoseconds(status.clock_offset().nanos());
  return absl::FormatDuration(absl::Trunc(offset, absl::Milliseconds(1)));
}

Table NodeTable(const google::protobuf::RepeatedPtrField<v1::NodeStatus>& nodes, absl::Time now) {
  Table table({{"NODE"},
               {"STATE"},
               {"BW%", true},
               {"BANDWIDTH", true},
               {"EXPECTED", true},
               {"AGE", true},
               {"MUTED"},
               {"FINDINGS", true},
               {"ID", false, true},
               {"LAST-SEEN", false, true},
               {"LAST-GOOD", false, true},
               {"CLOCK", true, true}});
  for (const v1::NodeStatus& each : nodes) {
    table.AddRow({each.node().hostname(), StateCell(each.state()), PercentText(each),
                  BandwidthText(each.bandwidth_bytes_per_second()),
                  BandwidthText(each.expected_bandwidth_bytes_per_second()), AgeText(LastSuccess(each), now),
                  YesText(each.muted()), absl::StrCat(each.finding_ids_size()), each.node().node_id(),
                  LocalTimeText(LastSeen(each), LocalZone()), LocalTimeText(LastSuccess(each), LocalZone()),
                  ClockText(each)});
  }
  return table;
}

absl::Status NodeList(Context& context, int limit) {
  const auto answer = FetchAll(context, &Stub::ListNodes, v1::ListNodesRequest(), limit,
                               [](const auto& page) { return page.nodes_size(); });
  if (!answer.ok()) return answer.status();
  if (context.WantsJson()) return context.PrintJson(*answer);
  context.Print(NodeTable(answer->nodes(), context.Now()).Render(context.Output()));
  return absl::OkStatus();
}

absl::Status NodeSlow(Context& context, double below, int limit) {
  v1::ListSlowNodesRequest request;
  request.set_below_ratio(below);
  const auto answer = FetchAll(context, &Stub::ListSlowNodes, request, limit,
                               [](const auto& page) { return page.nodes_size(); });
  if (!answer.ok()) return answer.status();
  if (context.WantsJson()) return context.PrintJson(*answer);
  if (answer->nodes().empty()) {
    context.Say(absl::StrCat("No measured node is below ", below * 100, "% of what is expected of it."));
  }
  context.Print(NodeTable(answer->nodes(), context.Now()).Render(context.Output()));
  return absl::OkStatus();
}

// What an operator looks for first: links that are narrow or down, and memory that wears out.
std::string GpuFactsText(const v1::GpuFacts& facts) {
  std::string text;
  if (facts.has_pcie_width() && facts.has_pcie_max_width())
    absl::StrAppend(&text, ", PCIe x", facts.pcie_width(), " of x", facts.pcie_max_width());
  if (facts.pcie_replay_count() > 0) absl::StrAppend(&text, ", ", facts.pcie_replay_count(), " PCIe replays");
  const auto up = std::count_if(facts.nvlinks().begin(), facts.nvlinks().end(),
                                [](const v1::NvLink& link) { return link.active(); });
  if (!facts.nvlinks().empty()) absl::StrAppend(&text, ", NVLink ", up, " of ", facts.nvlinks_size(), " up");
  if (facts.remapped_rows_uncorrected() > 0)
    absl::StrAppend(&text, ", ", facts.remapped_rows_uncorrected(), " rows remapped");
  if (facts.remapping_failed()) absl::StrAppend(&text, ", row remapping FAILED");
  if (!facts.xids().empty()) absl::StrAppend(&text, ", last Xid ", facts.xids().rbegin()->xid());
  return text;
}

void AddInventory(const v1::Node& node, Card& card) {
  for (const auto& [key, value] : node.labels()) card.Add(absl::StrCat("label ", key), value);
  for (const v1::Nic& nic : node.nics()) {
    card.Add(absl::StrCat("nic ", nic.name()),
             absl::StrCat(nic.state(), " ", nic.link_layer(), " ",
                          BandwidthText(static_cast<double>(nic.rate_bytes_per_second())), " ", nic.driver(),
                          " ", nic.pci_address()));
  }
  for (const v1::Gpu& gpu : node.gpus())
    card.Add("gpu", absl::StrCat(gpu.model(), " ", gpu.pci_address(), GpuFactsText(gpu.facts())));
  if (!node.gpu_source().problem().empty()) card.Add("gpu facts", node.gpu_source().problem());
  for (const auto& [key, value] : node.versions()) card.Add(absl::StrCat("version ", key), value);
}

Card NodeCard(const v1::NodeStatus& status, absl::Time now) {
  Card card;
  card.Add("node", status.node().hostname());
  card.Add("id", status.node().node_id());
  card.Add("state", StateCell(status.state()).text);
  card.Add("muted", status.muted() ? "yes" : "no");
  card.Add("connected", status.connected() ? "yes" : "no");
  card.Add("bandwidth", BandwidthText(status.bandwidth_bytes_per_second()));
  card.Add("expected", BandwidthText(status.expected_bandwidth_bytes_per_second()));
  card.Add("of expected", PercentText(status));
  card.Add("last seen",
           absl::StrCat(AgeText(LastSeen(status), now), "  ", LocalTimeText(LastSeen(status), LocalZone())));
  card.Add("last good run", absl::StrCat(AgeText(LastSuccess(status), now), "  ",
                                         LocalTimeText(LastSuccess(status), LocalZone())));
  card.Add("clock offset", ClockText(status));
  card.Add("open findings", absl::StrJoin(status.finding_ids(), ", "));
  AddInventory(status.node(), card);
  return card;
}

absl::Status NodeGet(Context& context, const std::string& node) {
  v1::GetNodeRequest request;
  request.set_node(node);
  const auto answer = Call(context, &Stub::GetNode, request);
  if (!answer.ok()) return answer.status();
  if (context.WantsJson()) return context.PrintJson(*answer);
  context.Print(NodeCard(answer->node(), context.Now()).Render(context.Output()));
  return absl::OkStatus();
}

Table HistoryTable(const v1::ListNodeHistoryResponse& history, absl::Time now) {
  Table table({{"AGE", true},
               {"PEER"},
               {"OUTCOME"},
               {"BANDWIDTH", true},
               {"LATENCY", true},
               {"PROVIDER"},
               {"MAINTENANCE"},
               {"DETAIL", false, false, true},
               {"TIME", false, true},
               {"RUN", false, true}});
  for (const v1::HistoryPoint& point : history.points()) {
    const absl::Time time = TimeOf(point.has_time(), point.time());
    const std::string outcome = ShortName(v1::Outcome_Name(point.outcome()), "OUTCOME_");
    table.AddRow({AgeText(time, now), point.peer_hostname(),
                  Cell(outcome, point.outcome() == v1::OUTCOME_OK ? Color::kGood : Color::kDoubt),
                  BestBandwidthText(point.measurements()), LatencyText(point), point.provider(),
                  YesText(point.in_maintenance()), point.detail(), LocalTimeText(time, LocalZone()),
                  point.run_id()});
  }
  return table;
}

struct HistoryFlags {
  std::string node;
  std::string since;
  int limit = 100;
};

absl::Status NodeHistory(Context& context, const HistoryFlags& flags) {
  v1::ListNodeHistoryRequest request;
  request.set_node(flags.node);
  if (!flags.since.empty()) {
    const auto since = ParseSince(flags.since, context.Now(), LocalZone());
    if (!since.ok()) return since.status();
    request.mutable_since_time()->set_seconds(absl::ToUnixSeconds(*since));
  }
  const auto answer = FetchAll(context, &Stub::ListNodeHistory, request, flags.limit,
                               [](const auto& page) { return page.points_size(); });
  if (!answer.ok()) return answer.status();
  if (context.WantsJson()) return context.PrintJson(*answer);
  context.Print(HistoryTable(*answer, context.Now()).Render(context.Output()));
  return absl::OkStatus();
}

void AddSlow(CLI::App& noun, Context& context) {
  struct Flags {
    double below = 0.9;
    int limit = 20;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App& verb = AddVerb(noun, "slow", "Nodes below what is expected of them, worst first",
                           "  weft node slow\n  weft node slow --below 0.8 -o json", context,
                           [&context, flags] { return NodeSlow(context, flags->below, flags->limit); });
  verb.add_option("--below", flags->below, "Share of the expected bandwidth [0.9]")
      ->check(CLI::Range(0.01, 1.0));
  AddLimit(verb, &flags->limit);
}

void AddHistory(CLI::App& noun, Context& context) {
  auto flags = std::make_shared<HistoryFlags>();
  CLI::App& verb = AddVerb(noun, "history", "Results of one node, newest first",
                           "  weft node history gpu017 --since 6h\n  weft node history gpu017 -o json",
                           context, [&context, flags] { return NodeHistory(context, *flags); });
  verb.add_option("NODE", flags->node, "Hostname or node id")->required();
  verb.add_option("--since", flags->since, "6h, 2d, \"2026-12-01 22:00\" or RFC 3339");
  AddLimit(verb, &flags->limit);
}

absl::Status NodeRemove(Context& context, const std::string& node, const std::string& by) {
  if (by.empty()) return absl::InvalidArgumentError("say who: --by NAME (USER is not set)");
  v1::RemoveNodeRequest request;
  request.set_node(node);
  request.set_removed_by(by);
  const auto answer = Call(context, &Stub::RemoveNode, request);
  if (!answer.ok()) return answer.status();
  if (context.WantsJson()) return context.PrintJson(*answer);
  context.Say(absl::StrCat("Removed ", answer->node().hostname(), " (", answer->node().node_id(), "); ",
                           answer->closed_findings(),
                           " open findings that name it are closed. Its history is kept as long as any."));
  return absl::OkStatus();
}

void AddRemove(CLI::App& noun, Context& context) {
  struct Flags {
    std::string node;
    std::string by = OwnUser();
  };
  auto flags = std::make_shared<Flags>();
  CLI::App& verb =
      AddVerb(noun, "remove", "Forget a node that will not come back", "  weft node remove gpu017 --by ann",
              context, [&context, flags] { return NodeRemove(context, flags->node, flags->by); });
  verb.add_option("NODE", flags->node, "Hostname or node id")->required();
  verb.add_option("--by", flags->by, "Who [$USER]");
}

}  // namespace

void AddNodeCommands(CLI::App& app, Context& context) {
  CLI::App& noun = AddNoun(app, "node", "Nodes: how they stand, which are slow");
  auto limit = std::make_shared<int>(0);
  CLI::App& list = AddVerb(noun, "list", "All nodes", "  weft node list\n  weft node list -o wide", context,
                           [&context, limit] { return NodeList(context, *limit); });
  AddLimit(list, limit.get());
  auto node = std::make_shared<std::string>();
  CLI::App& get = AddVerb(noun, "get", "One node with its inventory", "  weft node get gpu017", context,
                          [&context, node] { return NodeGet(context, *node); });
  get.add_option("NODE", *node, "Hostname or node id")->required();
  AddSlow(noun, context);
  AddHistory(noun, context);
  AddRemove(noun, context);
}

}  // namespace weft::cli
