// weft finding …
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/text_of.h"
#include "cli/time_text.h"
#include "convert/finding_text.h"
#include "weft/v1/finding.grpc.pb.h"

namespace weft::cli {
namespace {

using Stub = v1::FindingService::Stub;

struct ListFlags {
  bool open = false;
  bool include_info = false;
  std::string node;
  int limit = 100;
};

std::string KindText(const v1::Finding& finding) {
  return ShortName(v1::FindingKind_Name(finding.kind()), "FINDING_KIND_");
}

std::string ScopeText(const v1::Finding& finding) {
  return ShortName(v1::FindingScope_Name(finding.scope()), "FINDING_SCOPE_");
}

Cell SeverityCell(const v1::Finding& finding) {
  const std::string name = ShortName(v1::Severity_Name(finding.severity()), "SEVERITY_");
  return Cell(name, finding.severity() == v1::SEVERITY_CRITICAL ? Color::kBad : Color::kDoubt);
}

std::string RatioText(const v1::Finding& finding) {
  return finding.ratio() > 0 ? absl::StrFormat("%.0f%%", finding.ratio() * 100) : "";
}

std::string ConfidenceText(const v1::Finding& finding) {
  return absl::StrFormat("%.0f%%", finding.confidence() * 100);
}

std::string StateText(const v1::Finding& finding) { return finding.has_resolve_time() ? "resolved" : "open"; }

Table FindingTable(const v1::ListFindingsResponse& answer, absl::Time now) {
  Table table({{"FINDING"},
               {"STATE"},
               {"SEVERITY"},
               {"KIND"},
               {"SCOPE"},
               {"SUBJECT"},
               {"BW%", true},
               {"CONFIDENCE", true},
               {"SINCE", true},
               {"MUTED"},
               {"SUMMARY", false, false, true},
               {"SINCE-TIME", false, true},
               {"RESOLVED", false, true},
               {"SENT", true, true}});
  for (const v1::Finding& each : answer.findings()) {
    const absl::Time since = TimeOf(each.has_since_time(), each.since_time());
    const absl::Time resolved = TimeOf(each.has_resolve_time(), each.resolve_time());
    table.AddRow({each.finding_id(), StateText(each), SeverityCell(each), KindText(each), ScopeText(each),
                  SubjectOf(each), RatioText(each), ConfidenceText(each), AgeText(since, now),
                  absl::StrJoin(each.muted_by(), ","), each.summary(), LocalTimeText(since, LocalZone()),
                  LocalTimeText(resolved, LocalZone()), absl::StrCat(each.notifications_sent())});
  }
  return table;
}

absl::Status FindingList(Context& context, const ListFlags& flags) {
  v1::ListFindingsRequest request;
  request.set_open_only(flags.open);
  request.set_include_info(flags.include_info);
  request.set_node(flags.node);
  const auto answer = FetchAll(context, &Stub::ListFindings, request, flags.limit,
                               [](const auto& page) { return page.findings_size(); });
  if (!answer.ok()) return answer.status();
  if (context.WantsJson()) return context.PrintJson(*answer);
  context.Print(FindingTable(*answer, context.Now()).Render(context.Output()));
  return absl::OkStatus();
}

std::string ValueText(v1::Metric metric, double value) {
  return metric == v1::METRIC_LATENCY ? FormatLatency(value) : BandwidthText(value);
}

v1::Metric MetricOf(const v1::Finding& finding) {
  return finding.evidence().empty() ? v1::METRIC_WRITE_BANDWIDTH : finding.evidence(0).metric();
}

std::string TimeLine(bool set, const google::protobuf::Timestamp& timestamp, absl::Time now) {
  const absl::Time time = TimeOf(set, timestamp);
  return set ? absl::StrCat(AgeText(time, now), "  ", LocalTimeText(time, LocalZone())) : "";
}

Card FindingCard(const v1::Finding& finding, absl::Time now) {
  Card card;
  card.Add("finding", finding.finding_id());
  card.Add("summary", finding.summary());
  card.Add("state", StateText(finding));
  card.Add("severity", SeverityCell(finding).text);
  card.Add("kind", KindText(finding));
  card.Add("scope", ScopeText(finding));
  card.Add("subject", SubjectOf(finding));
  card.Add("probe", finding.probe());
  card.Add("observed", ValueText(MetricOf(finding), finding.observed()));
  card.Add("expected", ValueText(MetricOf(finding), finding.expected()));
  card.Add("of expected", RatioText(finding));
  card.Add("confidence", ConfidenceText(finding));
  card.Add("since", TimeLine(finding.has_since_time(), finding.since_time(), now));
  card.Add("opened", TimeLine(finding.has_open_time(), finding.open_time(), now));
  card.Add("resolved", TimeLine(finding.has_resolve_time(), finding.resolve_time(), now));
  card.Add("muted by", absl::StrJoin(finding.muted_by(), ", "));
  card.Add("notifications sent", absl::StrCat(finding.notifications_sent()));
  return card;
}

Table EvidenceTable(const v1::Finding& finding, absl::Time now) {
  Table table(
      {{"AGE", true}, {"PARTNER"}, {"OBSERVED", true}, {"EXPECTED", true}, {"RUN"}, {"TIME", false, true}});
  for (const v1::Evidence& each : finding.evidence()) {
    const absl::Time time = TimeOf(each.has_time(), each.time());
    table.AddRow({AgeText(time, now), each.partner_hostname(), ValueText(each.metric(), each.observed()),
                  ValueText(each.metric(), each.expected()), each.run_id(),
                  LocalTimeText(time, LocalZone())});
  }
  return table;
}

absl::Status FindingGet(Context& context, const std::string& id) {
  v1::GetFindingRequest request;
  request.set_finding_id(id);
  const auto answer = Call(context, &Stub::GetFinding, request);
  if (!answer.ok()) return answer.status();
  if (context.WantsJson()) return context.PrintJson(*answer);
  context.Print(FindingCard(answer->finding(), context.Now()).Render(context.Output()));
  if (answer->finding().evidence().empty()) return absl::OkStatus();
  context.Print(absl::StrCat("\n", EvidenceTable(answer->finding(), context.Now()).Render(context.Output())));
  return absl::OkStatus();
}

}  // namespace

void AddFindingCommands(CLI::App& app, Context& context) {
  CLI::App& noun = AddNoun(app, "finding", "Findings: what is wrong, with evidence");
  auto flags = std::make_shared<ListFlags>();
  CLI::App& list = AddVerb(noun, "list", "Findings, newest first",
                           "  weft finding list --open\n  weft finding list --node gpu017", context,
                           [&context, flags] { return FindingList(context, *flags); });
  list.add_flag("--open", flags->open, "Only open ones");
  list.add_flag("--info", flags->include_info, "Also those that nobody is told of (short dips)");
  list.add_option("--node", flags->node, "Only those that name this node (hostname or id)");
  AddLimit(list, &flags->limit);
  auto id = std::make_shared<std::string>();
  CLI::App& get = AddVerb(noun, "get", "One finding with its evidence", "  weft finding get ID", context,
                          [&context, id] { return FindingGet(context, *id); });
  get.add_option("ID", *id, "As finding list shows it")->required();
}

}  // namespace weft::cli
