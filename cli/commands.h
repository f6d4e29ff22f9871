// The nouns of the command line. Each function adds one noun with its verbs to `app`; a chosen verb is handed
// to Context::Choose. `context` must outlive `app`.
#pragma once

#include <functional>
#include <string>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/status/status.h"
#include "cli/context.h"

namespace weft::cli {

void AddNodeCommands(CLI::App& app, Context& context);
void AddRunCommands(CLI::App& app, Context& context);
void AddFindingCommands(CLI::App& app, Context& context);
void AddDeliveryCommands(CLI::App& app, Context& context);
void AddMaintenanceCommands(CLI::App& app, Context& context);
void AddCheckCommands(CLI::App& app, Context& context);
void AddServerCommands(CLI::App& app, Context& context);

// A noun, which needs a verb.
CLI::App& AddNoun(CLI::App& app, const std::string& name, const std::string& description);
// A verb with its examples (one per line); `run` is chosen when it is typed.
CLI::App& AddVerb(CLI::App& noun, const std::string& name, const std::string& description,
                  const std::string& examples, Context& context, std::function<absl::Status()> run);
// --limit N, 0 for all.
void AddLimit(CLI::App& verb, int* limit);

}  // namespace weft::cli
