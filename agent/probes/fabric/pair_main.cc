// Runs a pair of probes on this machine and prints one line of JSON with both results. Used by the
// shaped-link test and the comparison with fabtests.
#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "agent/probes/fabric/pair.h"
#include "agent/runner/reaper.h"
#include "base/file.h"
#include "google/protobuf/util/json_util.h"

namespace weft::fabric {
namespace {

std::string ToJson(const v1::Result& result) {
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(result, &json).ok()) return "{}";
  return json;
}

int Main(int argc, char** argv) {
  CLI::App app("Runs both ends of weft-probe-fabric here and prints their results");
  PairOptions options;
  std::string provider, domain;
  std::vector<uint64_t> sizes;
  uint64_t bytes = 0;
  uint32_t window = 0, iterations = 0;
  double rate = 0, seconds = 30;
  options.probe_dirs.fill(OwnFolder());
  app.add_option("--provider", provider, "libfabric provider");
  app.add_option("--domain", domain, "libfabric domain");
  app.add_option("--size", sizes, "message size in bytes; may be repeated");
  app.add_option("--bytes", bytes, "bytes per size and direction");
  app.add_option("--window", window, "writes in flight");
  app.add_option("--iterations", iterations, "timed round trips; 0: no latency");
  app.add_option("--rate", rate, "emulated link in bytes per second");
  app.add_option("--deadline", seconds, "seconds");
  app.add_option("--probe-dir0", options.probe_dirs[0], "folder of rank 0's weft-probe-fabric");
  app.add_option("--probe-dir1", options.probe_dirs[1], "folder of rank 1's weft-probe-fabric");
  CLI11_PARSE(app, argc, argv);
  options.probe.set_provider(provider);
  options.probe.set_domain(domain);
  for (const uint64_t size : sizes) options.probe.add_message_size_bytes(size);
  options.probe.set_bytes_per_size(bytes);
  options.probe.set_window(window);
  options.probe.set_latency_iterations(iterations);
  options.probe.set_skip_latency(iterations == 0);
  options.link_rates.fill(rate);
  options.deadline = absl::Seconds(seconds);
  if (!Reaper::BecomeSubreaper().ok()) return 1;
  const PairResults results = RunPair(options);
  std::cout << "[" << ToJson(results[0]) << "," << ToJson(results[1]) << "]\n";
  return results[0].outcome() == v1::OUTCOME_OK && results[1].outcome() == v1::OUTCOME_OK ? 0 : 1;
}

}  // namespace
}  // namespace weft::fabric

int main(int argc, char** argv) { return weft::fabric::Main(argc, argv); }
