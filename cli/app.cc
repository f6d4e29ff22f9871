#include "cli/app.h"

#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/near_match.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/version.h"

namespace weft::cli {
namespace {

constexpr char kDescription[] =
    "Weft: health of a GPU fleet's fabric.\n"
    "\n"
    "Examples:\n"
    "  weft node slow                  which nodes are slow right now\n"
    "  weft finding list --open        what is wrong, since when, how sure\n"
    "  weft check node gpu017          may a job be placed there?";
constexpr char kFooter[] =
    "\nJSON (-o json) is the only stable output; tables may change.\n"
    "Exit codes: weft help exit-codes";

void AddConnectionFlags(CLI::App& app, ClientOptions& client, std::string& timeout) {
  app.add_option("--server", client.server, "Server address [127.0.0.1:7443]")->envname("WEFT_SERVER");
  app.add_option("--tls-cert", client.tls_certificate_file, "Own certificate chain, PEM")
      ->envname("WEFT_TLS_CERT");
  app.add_option("--tls-key", client.tls_key_file, "Own private key, PEM")->envname("WEFT_TLS_KEY");
  app.add_option("--tls-ca", client.tls_ca_file, "Authorities the server is signed by, PEM")
      ->envname("WEFT_TLS_CA");
  app.add_flag("--insecure", client.insecure, "Plain text, no identity")->envname("WEFT_INSECURE");
  app.add_option("--timeout", timeout, "Longest wait for one answer [30s]");
}

void AddGlobalFlags(CLI::App& app, GlobalFlags& flags) {
  AddConnectionFlags(app, flags.client, flags.timeout);
  app.add_option("-o,--output", flags.format, "table, wide or json [table]")
      ->check(CLI::IsMember({"table", "wide", "json"}));
  app.add_flag("--no-color", flags.no_color, "No colour; also NO_COLOR");
  app.add_flag("-v,--verbose", flags.verbose, "Say more about errors");
}

// App::help() would be that of the command which was typed: "help" itself.
std::string HelpOf(const CLI::App& app) {
  return app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal);
}

const CLI::App* FindCommand(const CLI::App& app, const std::string& name) {
  const auto found = app.get_subcommands([&name](const CLI::App* each) { return each->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

absl::Status Help(const CLI::App& app, const std::string& topic) {
  if (topic.empty()) {
    std::fputs(HelpOf(app).c_str(), stdout);
  } else if (const CLI::App* noun = FindCommand(app, topic); noun != nullptr) {
    std::fputs(HelpOf(*noun).c_str(), stdout);
  } else if (topic == "exit-codes") {
    std::fputs(ExitCodeHelp(), stdout);
  } else {
    return absl::InvalidArgumentError(absl::StrCat("no help topic \"", EscapeControl(topic), "\".",
                                                   DidYouMean(NearMatches(topic, {"exit-codes"})),
                                                   " Topics: exit-codes, and each command"));
  }
  return absl::OkStatus();
}

void AddPlainCommands(CLI::App& app, Context& context) {
  CLI::App* version = app.add_subcommand("version", "Version of this program");
  version->callback([&context] {
    context.Choose([&context] {
      if (context.WantsJson()) return context.PrintJson(JsonObject({{"version", Version()}}));
      context.Print(absl::StrCat("weft ", Version(), "\n"));
      return absl::OkStatus();
    });
  });
  auto topic = std::make_shared<std::string>();
  CLI::App* help = app.add_subcommand("help", "Help on a command, or on exit-codes");
  help->add_option("TOPIC", *topic, "A command, or exit-codes");
  help->callback([&app, &context, topic] { context.Choose([&app, topic] { return Help(app, *topic); }); });
}

void AddAll(CLI::App& app, Context& context) {
  app.name("weft");
  app.footer(kFooter);
  app.fallthrough();
  app.require_subcommand(1);
  app.set_version_flag("--version", absl::StrCat("weft ", Version()), "Version of this program");
  AddGlobalFlags(app, context.flags());
  AddNodeCommands(app, context);
  AddRunCommands(app, context);
  AddFindingCommands(app, context);
  AddDeliveryCommands(app, context);
  AddMaintenanceCommands(app, context);
  AddCheckCommands(app, context);
  AddServerCommands(app, context);
  AddPlainCommands(app, context);
}

// The command that was typed last, e.g. "list" of "weft node list".
const CLI::App* Deepest(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().back();
  return app;
}

std::string FullName(const CLI::App* app) {
  return app->get_parent() == nullptr ? app->get_name()
                                      : absl::StrCat(FullName(app->get_parent()), " ", app->get_name());
}

std::vector<std::string> VerbsOf(const CLI::App* app) {
  std::vector<std::string> names;
  for (const CLI::App* each : app->get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(each->get_name());
  }
  return names;
}

// What is wrong when a noun has no known verb; empty when something else is.
std::string UnknownCommand(const CLI::App& app, const CLI::App* at) {
  const std::vector<std::string> verbs = VerbsOf(at);
  const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  if (verbs.empty()) return "";
  if (rest.empty()) return absl::StrCat("needs one of: ", absl::StrJoin(verbs, ", "));
  const std::string word = EscapeControl(ToValidUtf8(rest.front()));
  if (absl::StartsWith(word, "-")) return absl::StrCat("unknown flag \"", word, "\".");
  const std::string near = DidYouMean(NearMatches(rest.front(), verbs));
  return absl::StrCat("unknown command \"", word, "\".",
                      near.empty() ? absl::StrCat(" It has: ", absl::StrJoin(verbs, ", ")) : near);
}

int UsageError(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* at = Deepest(&app);
  std::string what = UnknownCommand(app, at);
  if (what.empty()) what = EscapeControl(ToValidUtf8(error.what()));
  const std::string name = FullName(at);
  std::fputs(absl::StrCat("error: ", name, ": ", what, "\nTry: ", name, " --help\n").c_str(), stderr);
  return kUsage;
}

// Whatever is typed may end up in a request or an error, and both are UTF-8.
absl::Status CheckUtf8(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    if (IsValidUtf8(argv[i])) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "weft: argument ", i, " \"", EscapeControl(ToValidUtf8(argv[i])), "\" is not valid UTF-8"));
  }
  return absl::OkStatus();
}

int ParseAndRun(CLI::App& app, Context& context, int argc, const char* const* argv) {
  try {
    app.parse(argc, const_cast<char**>(argv));  // NOLINT: CLI11 only reads them
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return kOk;
  } catch (const CLI::CallForVersion& version) {
    std::fputs(absl::StrCat(version.what(), "\n").c_str(), stdout);
    return kOk;
  } catch (const CLI::ParseError& error) {
    return UsageError(app, error);
  }
  return context.RunCommand();
}

}  // namespace

CLI::App& AddNoun(CLI::App& app, const std::string& name, const std::string& description) {
  CLI::App* noun = app.add_subcommand(name, description);
  noun->require_subcommand(1);
  return *noun;
}

CLI::App& AddVerb(CLI::App& noun, const std::string& name, const std::string& description,
                  const std::string& examples, Context& context, std::function<absl::Status()> run) {
  CLI::App* verb = noun.add_subcommand(name, description);
  verb->footer(absl::StrCat("\nExamples:\n", examples));
  verb->callback([&context, run] { context.Choose(run); });
  return *verb;
}

void AddLimit(CLI::App& verb, int* limit) {
  verb.add_option("-n,--limit", *limit, absl::StrCat("At most this many, 0 for all [", *limit, "]"))
      ->check(CLI::NonNegativeNumber);
}

int Main(int argc, const char* const* argv) try {
  Context context;
  if (absl::Status status = CheckUtf8(argc, argv); !status.ok()) {
    context.SayError(status);
    return kUsage;
  }
  CLI::App app(kDescription);
  AddAll(app, context);
  if (argc <= 1) {
    std::fputs(app.help().c_str(), stdout);
    return kOk;
  }
  return ParseAndRun(app, context, argc, argv);
} catch (const std::exception& e) {
  std::fputs(absl::StrCat("error: ", e.what(), "\n").c_str(), stderr);
  return kFailed;
}

}  // namespace weft::cli
