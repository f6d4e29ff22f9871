#include "server/detect/detector.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/detect/codec.h"
#include "server/detect/findings.h"

namespace weft {
namespace {

// First byte of a state's key and of its blob.
constexpr char kNodeState = 'n';
constexpr char kCohortState = 'c';
constexpr char kPairState = 'p';
// Raised when blobs change their meaning.
constexpr uint8_t kStateVersion = 1;

// A device's bandwidth at its largest message size.
struct DeviceBandwidth {
  double value = 0;
  uint64_t message_size_bytes = 0;
};

std::map<std::string, DeviceBandwidth> BandwidthByDevice(const Result& result) {
  std::map<std::string, DeviceBandwidth> devices;
  for (const Measurement& measurement : result.measurements) {
    if (!IsLinkBandwidth(measurement.metric)) continue;
    const auto [it, is_new] = devices.try_emplace(measurement.device);
    if (!is_new && measurement.message_size_bytes <= it->second.message_size_bytes) continue;
    it->second = {measurement.value, measurement.message_size_bytes};
  }
  return devices;
}

SideReport::State StateOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk:
      return SideReport::State::kOk;
    case Outcome::kFailed:
    case Outcome::kTimedOut:
    case Outcome::kPartnerMissing:
      return SideReport::State::kFailed;
    case Outcome::kSkippedBusy:
    case Outcome::kSkippedMaintenance:
    case Outcome::kRefused:
    case Outcome::kYielded:
      break;
  }
  return SideReport::State::kSkipped;
}

bool AccusesPeer(const Result& result, uint32_t peer_rank) {
  if (result.outcome == Outcome::kPartnerMissing) return true;
  if (result.outcome != Outcome::kTimedOut) return false;
  const auto& missing = result.missing_ranks;
  return std::count(missing.begin(), missing.end(), peer_rank) != 0 &&
         std::count(missing.begin(), missing.end(), 1 - peer_rank) == 0;
}

// All that changes what a number means, the node and the device apart.
std::string StackOf(const Result& result, const DeviceBandwidth& bandwidth) {
  return absl::StrCat(result.stack_fingerprint, "|", result.provider, "|", bandwidth.message_size_bytes, "|",
                      result.emulated_link ? 1 : 0);
}

std::string StateKey(char type, const std::string& probe, const std::string& channel, const std::string& name,
                     const std::string& second) {
  // Lengths keep names that hold the separator apart.
  return absl::StrCat(std::string(1, type), "|", probe, "|", channel.size(), "|", channel, "|", name.size(),
                      "|", name, "|", second);
}

DetectorState MakeState(char type, const std::string& probe, const std::string& channel,
                        const std::string& name, const std::string& second, const std::string& body) {
  DetectorState state;
  state.key = StateKey(type, probe, channel, name, second);
  if (body.empty()) return state;
  BlobWriter writer;
  writer.U8(kStateVersion);
  writer.U8(static_cast<uint8_t>(type));
  for (const std::string* text : {&probe, &channel, &name, &second}) writer.Text(*text);
  state.blob = writer.Take() + body;
  return state;
}

void AddChangedStates(Board& board, const std::string& probe, const std::string& channel,
                      std::vector<DetectorState>& states) {
  const BoardChanges changes = board.TakeChanges();
  for (const std::string& node : changes.nodes) {
    states.push_back(MakeState(kNodeState, probe, channel, node, "", board.EncodeNode(node)));
  }
  for (const std::string& cohort : changes.cohorts) {
    states.push_back(MakeState(kCohortState, probe, channel, cohort, "", board.EncodeCohort(cohort)));
  }
  for (const PairKey& pair : changes.pairs) {
    states.push_back(MakeState(kPairState, probe, channel, pair.first, pair.second, board.EncodePair(pair)));
  }
}

// When every NIC of a node has the same trouble, it is the node's.
void MergeNics(std::vector<Finding>& findings,
               const std::map<std::pair<std::string, std::string>, size_t>& nics) {
  std::map<std::tuple<FindingKind, std::string, std::string>, std::vector<size_t>> groups;
  for (size_t i = 0; i < findings.size(); ++i) {
    if (findings[i].scope != FindingScope::kNic) continue;
    groups[{findings[i].kind, findings[i].probe, findings[i].node_ids[0]}].push_back(i);
  }
  std::set<size_t, std::greater<>> merged;
  for (const auto& [group, members] : groups) {
    const auto total = nics.find({std::get<1>(group), std::get<2>(group)});
    if (members.size() < 2 || total == nics.end() || members.size() < total->second) continue;
    const auto worst = std::min_element(members.begin(), members.end(), [&](size_t a, size_t b) {
      return findings[a].ratio < findings[b].ratio;
    });
    findings[*worst].summary = absl::StrCat("all ", members.size(), " NICs: ", findings[*worst].summary);
    findings[*worst].scope = FindingScope::kNode;
    findings[*worst].part.clear();
    for (const size_t i : members) {
      if (i != *worst) merged.insert(i);
    }
  }
  for (const size_t i : merged) findings.erase(findings.begin() + static_cast<std::ptrdiff_t>(i));
}

}  // namespace

Board& Detector::BoardOf(const std::string& probe, const std::string& channel) {
  return boards_.try_emplace({probe, channel}, options_).first->second;
}

void Detector::Observe(const StoredResult& stored) {
  const Result& result = stored.result;
  const std::vector<std::string>& ids = stored.participants;
  if (ids.size() != 2 || ids[0] == ids[1] || result.rank > 1 || ids[result.rank] != result.node_id) return;
  RunReport report;
  report.run_id = result.run_id;
  report.node = result.node_id;
  report.partner = ids[1 - result.rank];
  report.cohort = stored.cohort;
  report.time = stored.plan_time;
  report.in_maintenance = stored.in_maintenance;
  report.side.state = StateOf(result.outcome);
  report.side.accuses_peer = AccusesPeer(result, 1 - result.rank);
  const bool is_ok = report.side.state == SideReport::State::kOk;
  const auto devices = is_ok ? BandwidthByDevice(result) : std::map<std::string, DeviceBandwidth>();
  if (devices.size() == 1) {
    report.side.value = devices.begin()->second.value;
    report.stack = StackOf(result, devices.begin()->second);
  }
  BoardOf(stored.probe, "").Observe(report);
  if (devices.size() < 2) return;
  for (const auto& [device, bandwidth] : devices) {
    report.side.value = bandwidth.value;
    report.stack = StackOf(result, bandwidth);
    BoardOf(stored.probe, device).Observe(report);
  }
}

std::vector<Finding> Detector::Findings() const {
  std::vector<Finding> findings;
  std::map<std::pair<std::string, std::string>, size_t> nics;  // by probe and node
  for (const auto& [key, board] : boards_) {
    std::vector<Finding> more = FindingsOf(board, key.first, key.second);
    std::move(more.begin(), more.end(), std::back_inserter(findings));
    if (key.second.empty()) continue;
    for (const auto& [node, series] : board.series()) ++nics[{key.first, node}];
  }
  MergeNics(findings, nics);
  std::sort(findings.begin(), findings.end(),
            [](const Finding& a, const Finding& b) { return a.Key() < b.Key(); });
  return findings;
}

std::vector<NodeLevel> Detector::Levels() const {
  const auto share = [](const NodeLevel& level) {
    return level.expected > 0 ? level.observed / level.expected : 1;
  };
  std::map<std::pair<std::string, std::string>, NodeLevel> worst;
  for (const auto& [key, board] : boards_) {
    for (const NodeLevel& level : LevelsOf(board, key.first)) {
      const auto [it, is_new] = worst.try_emplace({level.probe, level.node_id}, level);
      if (!is_new && share(level) < share(it->second)) it->second = level;
    }
  }
  std::vector<NodeLevel> levels;
  for (auto& [key, level] : worst) levels.push_back(std::move(level));
  return levels;
}

std::vector<DetectorState> Detector::TakeChangedStates() {
  std::vector<DetectorState> states;
  for (auto& [key, board] : boards_) AddChangedStates(board, key.first, key.second, states);
  return states;
}

absl::Status Detector::RestoreOne(const DetectorState& state) {
  const absl::Status damaged =
      absl::DataLossError(absl::StrCat("detector state \"", state.key, "\" cannot be read: damaged, or of ",
                                       "another version; delete the detector's states to learn anew"));
  BlobReader reader(state.blob);
  if (reader.U8() != kStateVersion) return damaged;
  const auto type = static_cast<char>(reader.U8());
  const std::string probe = reader.Text();
  const std::string channel = reader.Text();
  const std::string name = reader.Text();
  const std::string second = reader.Text();
  if (!reader.ok() || StateKey(type, probe, channel, name, second) != state.key) return damaged;
  Board& board = BoardOf(probe, channel);
  const bool is_restored = type == kNodeState     ? board.RestoreNode(name, reader)
                           : type == kCohortState ? board.RestoreCohort(name, reader)
                           : type == kPairState   ? board.RestorePair({name, second}, reader)
                                                  : false;
  return is_restored ? absl::OkStatus() : damaged;
}

absl::Status Detector::Restore(const std::vector<DetectorState>& states) {
  for (const DetectorState& state : states) {
    if (state.blob.empty()) continue;
    if (absl::Status status = RestoreOne(state); !status.ok()) return status;
  }
  for (auto& [key, board] : boards_) board.FinishRestore();
  return absl::OkStatus();
}

}  // namespace weft
