// weft-sim: Weft's planner, detector, episodes and windows on a simulated fleet and a virtual clock.
//
//   weft-sim generate --seed S --nodes N [--rails 8] [--leaves 32] [--days 7] [--smallest 0.05] > F.yaml
//   weft-sim run --scenario F.yaml --seed S --json OUT [--strategy weft]
//
// docs/SIMULATION.md describes both files.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/sim/generate.h"
#include "bench/sim/report.h"
#include "bench/sim/scenario.h"
#include "bench/sim/simulation.h"
#include "bench/sim/strategy.h"

namespace weft::sim {
namespace {

struct CommandLine {
  uint64_t seed = 1;
  GenerateOptions generate;
  std::string scenario, json;
  std::string strategy = "weft";
};

absl::StatusOr<Scenario> ReadScenario(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  return ParseScenario(text.str(), path);
}

absl::Status Run(const CommandLine& line) {
  absl::StatusOr<Scenario> scenario = ReadScenario(line.scenario);
  if (!scenario.ok()) return scenario.status();
  absl::StatusOr<std::unique_ptr<Strategy>> strategy = MakeStrategy(line.strategy, *scenario, line.seed);
  if (!strategy.ok()) return strategy.status();
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<Played> played = Simulate(*scenario, line.seed, **strategy);
  if (!played.ok()) return played.status();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  std::ofstream out(line.json, std::ios::binary);
  out << ToJson(*scenario, line.strategy, *played, wall.count()) << std::flush;
  return out ? absl::OkStatus() : absl::UnavailableError(absl::StrCat(line.json, ": cannot be written"));
}

absl::Status GenerateYaml(const CommandLine& line) {
  const std::string yaml = ToYaml(Generate(line.generate, line.seed));
  if (absl::Status status = ParseScenario(yaml, "generated").status(); !status.ok()) return status;
  std::cout << yaml << std::flush;
  return std::cout ? absl::OkStatus() : absl::UnavailableError("standard output cannot be written");
}

void Declare(CLI::App& cli, CommandLine* line) {
  CLI::App* generate = cli.add_subcommand("generate", "print a random scenario");
  generate->add_option("--seed", line->seed, "which one")->required();
  generate->add_option("--nodes", line->generate.nodes, "in the fleet")
      ->required()
      ->check(CLI::Range(16, 200'000));
  generate->add_option("--rails", line->generate.rails, "NICs of a node")->check(CLI::Range(1, 64));
  generate->add_option("--leaves", line->generate.leaves, "leaf switches")->check(CLI::Range(1, 20'000));
  generate->add_option("--days", line->generate.days, "virtual days")->check(CLI::Range(1, 366));
  generate->add_option("--smallest", line->generate.smallest, "least share of capacity that a fault takes")
      ->check(CLI::Range(0.001, 0.6));
  CLI::App* run = cli.add_subcommand("run", "simulate a scenario");
  run->add_option("--scenario", line->scenario, "YAML")->required();
  run->add_option("--seed", line->seed, "of noise and jobs")->required();
  run->add_option("--json", line->json, "where the result goes")->required();
  run->add_option("--strategy", line->strategy, "who decides")->check(CLI::IsMember(StrategyNames()));
  cli.require_subcommand(1);
}

}  // namespace
}  // namespace weft::sim

int main(int argc, char** argv) {
  CLI::App cli("Runs Weft on a simulated fleet and says how well it found what was wrong.");
  weft::sim::CommandLine line;
  weft::sim::Declare(cli, &line);
  CLI11_PARSE(cli, argc, argv);
  const bool generates = cli.got_subcommand("generate");
  const absl::Status status = generates ? weft::sim::GenerateYaml(line) : weft::sim::Run(line);
  if (!status.ok()) {
    std::cerr << "weft-sim: " << status.message() << "\n";
    return 1;
  }
  return 0;
}
