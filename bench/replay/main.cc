// weft-replay: feeds recorded or generated measurements to the detection classes of server/detect.
//
//   weft-replay series   --rows N --cols T --in F.f32 --out F.jsonl [--profile balanced|fast]
//   weft-replay evidence --rows N --cols T --in F.f32 --out F.jsonl
//   weft-replay classify --rows N --cols T --in F.f32 --cohorts C.csv --out F.jsonl
//   weft-replay cohort   --in F.json --out F.jsonl
//   weft-replay pairs    --rounds R --in F.json --out F.jsonl
//
// The last line on stderr is {"cpu_seconds": of the detection alone, "bytes_per_series": state of one
// series}.
#include <ctime>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/replay/inputs.h"
#include "bench/replay/modes.h"
#include "server/detect/step_detector.h"

namespace weft {
namespace {

struct CommandLine {
  std::string in, out, cohorts;
  std::string profile = "balanced";
  size_t rows = 0, cols = 0, rounds = 0;
};

using Work = std::function<void(std::ostream&)>;

double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

absl::StatusOr<Work> Prepare(const std::string& mode, const CommandLine& line) {
  if (mode == "cohort") {
    absl::StatusOr<std::vector<Matrix>> cohorts = ReadCohorts(line.in);
    if (!cohorts.ok()) return cohorts.status();
    return Work([cohorts = *std::move(cohorts)](std::ostream& out) { ReplayCohorts(cohorts, out); });
  }
  if (mode == "pairs") {
    absl::StatusOr<std::vector<Fabric>> fabrics = ReadFabrics(line.in, line.rounds);
    if (!fabrics.ok()) return fabrics.status();
    return Work([fabrics = *std::move(fabrics)](std::ostream& out) { ReplayPairs(fabrics, out); });
  }
  absl::StatusOr<Matrix> rows = ReadFloats(line.in, line.rows, line.cols);
  if (!rows.ok()) return rows.status();
  if (mode == "evidence")
    return Work([rows = *std::move(rows)](std::ostream& out) { ReplayEvidence(rows, out); });
  if (mode == "series") {
    const StepProfile profile = line.profile == "fast" ? StepProfile::kFast : StepProfile::kBalanced;
    return Work([rows = *std::move(rows), profile](std::ostream& out) { ReplaySeries(rows, profile, out); });
  }
  absl::StatusOr<std::vector<int>> cohorts = ReadCohortOfRows(line.cohorts, line.rows);
  if (!cohorts.ok()) return cohorts.status();
  return Work([rows = *std::move(rows), cohorts = *std::move(cohorts)](std::ostream& out) {
    ReplayClasses(rows, cohorts, out);
  });
}

absl::Status Replay(const std::string& mode, const CommandLine& line) {
  absl::StatusOr<Work> work = Prepare(mode, line);
  if (!work.ok()) return work.status();
  std::ostringstream lines;
  const double start = CpuSeconds();
  (*work)(lines);
  const double spent = CpuSeconds() - start;
  std::ofstream out(line.out, std::ios::binary);
  out << std::move(lines).str() << std::flush;
  if (!out) return absl::UnavailableError(absl::StrCat(line.out, ": cannot be written"));
  std::cerr << absl::StreamFormat("{\"cpu_seconds\":%.6f,\"bytes_per_series\":%d}\n", spent,
                                  sizeof(StepState));
  return absl::OkStatus();
}

void Declare(CLI::App& cli, CommandLine* line) {
  const auto add = [&](const char* name, const char* about) {
    CLI::App* mode = cli.add_subcommand(name, about);
    mode->add_option("--in", line->in, "input file")->required();
    mode->add_option("--out", line->out, "where JSON lines go")->required();
    return mode;
  };
  const auto add_matrix = [&](CLI::App* mode) {
    mode->add_option("--rows", line->rows, "series in the input")
        ->required()
        ->check(CLI::Range(0, 100'000'000));
    mode->add_option("--cols", line->cols, "samples of a series")
        ->required()
        ->check(CLI::Range(1, 100'000'000));
    return mode;
  };
  add_matrix(add("series", "steps, sample by sample"))
      ->add_option("--profile", line->profile, "balanced or fast")
      ->check(CLI::IsMember({"balanced", "fast"}));
  add_matrix(add("evidence", "what is weighed for a step, convincing or not"));
  add_matrix(add("classify", "the class of each series"))
      ->add_option("--cohorts", line->cohorts, "CSV: row,cohort")
      ->required();
  add("cohort", "who is slow among peers now");
  add("pairs", "who makes pair runs slow")
      ->add_option("--rounds", line->rounds, "rounds to use")
      ->required()
      ->check(CLI::Range(1, 1'000'000));
  cli.require_subcommand(1);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  CLI::App cli("Feeds measurements to Weft's detection classes and writes what they find.");
  weft::CommandLine line;
  weft::Declare(cli, &line);
  CLI11_PARSE(cli, argc, argv);
  const absl::Status status = weft::Replay(cli.get_subcommands().front()->get_name(), line);
  if (!status.ok()) {
    std::cerr << "weft-replay: " << status.message() << "\n";
    return 1;
  }
  return 0;
}
