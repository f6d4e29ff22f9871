#include "bench/sim/report.h"

#include <algorithm>
#include <boost/json/src.hpp>  // the library itself: no package of it need be linked
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"

namespace weft::sim {
namespace {

namespace json = boost::json;

json::value Seconds(bool is_known, absl::Duration duration) {
  return is_known ? json::value(absl::ToDoubleSeconds(duration)) : json::value(nullptr);
}

json::value Share(size_t part, size_t whole) {
  return whole == 0 ? json::value(nullptr)
                    : json::value(static_cast<double>(part) / static_cast<double>(whole));
}

json::object FaultOf(const Fault& fault, const FaultScore& score) {
  json::object named;
  if (score.found) named = {{"scope", score.named.scope}, {"subject", score.named.subject}};
  json::object out;
  out["kind"] = std::string(NameOf(fault.kind));
  out["subject"] = RightName(fault).subject;
  out["at"] = absl::ToDoubleSeconds(fault.onset);
  out["end"] = absl::ToDoubleSeconds(fault.end);
  out["size"] = fault.size;
  out["exposed"] = score.exposed;
  out["found"] = score.found;
  out["found_after_seconds"] = Seconds(score.found, score.found_after);
  out["named"] = score.found ? json::value(named) : json::value(nullptr);
  out["right"] = score.right;
  out["right_after_seconds"] = Seconds(score.was_named_right, score.right_after);
  out["right_after_rounds"] =
      score.was_named_right ? json::value(score.rounds_until_right) : json::value(nullptr);
  out["probes_after_onset"] = score.found ? json::value(score.runs_until_found) : json::value(nullptr);
  out["symptoms"] = score.symptoms;
  return out;
}

json::object FalseFindingOf(const FalseFinding& finding) {
  return {{"scope", finding.name.scope}, {"subject", finding.name.subject},
          {"kind", finding.kind},        {"at", absl::ToDoubleSeconds(finding.at)},
          {"told", finding.told},        {"summary", finding.summary}};
}

json::value MedianRounds(const Score& score) {
  std::vector<uint64_t> rounds;
  for (const FaultScore& fault : score.faults) {
    if (fault.was_named_right) rounds.push_back(fault.rounds_until_right);
  }
  if (rounds.empty()) return nullptr;
  const auto middle = rounds.begin() + static_cast<std::ptrdiff_t>((rounds.size() - 1) / 2);
  std::nth_element(rounds.begin(), middle, rounds.end());
  return *middle;
}

}  // namespace

std::string ToJson(const Scenario& scenario, absl::string_view strategy, const Played& played,
                   double wall_seconds) {
  const Score& score = played.score;
  const size_t to_find = score.FaultsToFind(scenario);
  const size_t found = score.Found(scenario);
  std::vector<std::string> faults;
  for (size_t i = 0; i < score.faults.size(); ++i) {
    faults.push_back(json::serialize(FaultOf(scenario.faults[i], score.faults[i])));
  }
  json::array false_list;
  for (const FalseFinding& finding : score.false_findings) false_list.push_back(FalseFindingOf(finding));
  json::object out;
  out["strategy"] = std::string(strategy);
  out["nodes"] = scenario.nodes;
  out["faults_to_find"] = to_find;
  out["faults_found"] = found;
  out["faults_right"] = score.Right(scenario);
  out["false_findings"] = score.false_findings.size();
  out["precision"] = Share(found, found + score.false_findings.size());
  out["recall"] = Share(found, to_find);
  out["localisation_accuracy"] = Share(score.Right(scenario), found);
  out["median_rounds_until_right"] = MedianRounds(score);
  out["pages"] = score.pages;
  out["pages_false"] = score.pages_false;
  out["probes_total"] = played.probes;
  out["probes_declined"] = played.declined;
  out["probe_seconds_per_node_per_day"] = absl::ToDoubleSeconds(played.probe_time) /
                                          static_cast<double>(scenario.nodes) /
                                          static_cast<double>(scenario.days);
  out["virtual_seconds"] = absl::ToDoubleSeconds(scenario.length());
  out["wall_seconds"] = wall_seconds;
  std::string text = json::serialize(out);
  text.pop_back();
  absl::StrAppend(&text, ",\n\"false_finding_list\":", json::serialize(false_list), ",\n\"faults\":[\n");
  for (size_t i = 0; i < faults.size(); ++i) absl::StrAppend(&text, i == 0 ? "" : ",\n", faults[i]);
  return absl::StrCat(text, "\n]}\n");
}

}  // namespace weft::sim
