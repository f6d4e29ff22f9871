// weft check …: for Nagios, NHC, Slurm prologs and Node Problem Detector.
#include <unistd.h>

#include <array>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "cli/check_report.h"
#include "cli/commands.h"
#include "weft/v1/finding.grpc.pb.h"
#include "weft/v1/fleet.grpc.pb.h"

namespace weft::cli {
namespace {

struct Flags {
  std::string node = "self";
  ExitStyle style = ExitStyle::kNagios;
};

std::string OwnHostname() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

absl::StatusOr<CheckReport> Ask(Context& context, const std::string& node) {
  v1::GetNodeRequest node_request;
  node_request.set_node(node);
  const auto status = Call(context, &v1::FleetService::Stub::GetNode, node_request);
  if (!status.ok()) return status.status();
  v1::ListFindingsRequest findings_request;
  findings_request.set_node(status->node().node().node_id());
  findings_request.set_open_only(true);
  const auto findings = FetchAll(context, &v1::FindingService::Stub::ListFindings, findings_request, 0,
                                 [](const auto& page) { return page.findings_size(); });
  if (!findings.ok()) return findings.status();
  return ReportOf(status->node(), findings->findings(), context.Now());
}

absl::Status CheckNode(Context& context, const Flags& flags) {
  const std::string node = flags.node == "self" ? OwnHostname() : flags.node;
  const auto asked = Ask(context, node);
  const CheckReport report = asked.ok() ? *asked : ReportOf(node, asked.status());
  context.ExitWith(CheckExitCode(report.verdict, flags.style));
  if (context.WantsJson()) {
    return context.PrintJson(JsonObject(
        {{"verdict", VerdictName(report.verdict)}, {"node", report.node}, {"detail", report.detail}}));
  }
  context.Print(absl::StrCat(report.line, "\n"));
  return absl::OkStatus();
}

}  // namespace

void AddCheckCommands(CLI::App& app, Context& context) {
  static const std::map<std::string, ExitStyle> kStyles = {
      {"nagios", ExitStyle::kNagios}, {"npd", ExitStyle::kNpd}, {"bool", ExitStyle::kBool}};
  CLI::App& noun = AddNoun(app, "check", "One line and an exit code for schedulers and monitors");
  auto flags = std::make_shared<Flags>();
  CLI::App& node = AddVerb(noun, "node", "May a job be placed on this node?",
                           "  weft check node gpu017\n  weft check node self --exit-style npd --timeout 5s",
                           context, [&context, flags] { return CheckNode(context, *flags); });
  node.add_option("NODE", flags->node, "Hostname, node id, or self [self]");
  node.add_option("--exit-style", flags->style, "nagios, npd or bool [nagios]; see weft help exit-codes")
      ->transform(CLI::CheckedTransformer(kStyles));
}

}  // namespace weft::cli
