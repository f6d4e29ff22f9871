#include "agent/probes/transport/verdict.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace weft {
namespace {

constexpr size_t kMaxEvidence = 8;
constexpr size_t kMaxUses = 64;
// Above this share of the bytes that had to move, a kind of NIC carried them; below the lesser, it did not.
// Others use the same NICs and protocols add headers, so both are far from the ends.
constexpr double kCarried = 0.5;
constexpr double kNotCarried = 0.05;
// A NIC that moved less than this share of the mean of its fellows was not used.
constexpr double kUnusedShare = 0.1;

std::string TrafficText(const NicTraffic& traffic) {
  return absl::StrCat("counters of ", traffic.nic, ": ", traffic.sent_bytes, " B sent, ",
                      traffic.received_bytes, " B received", traffic.counter_reset ? " since a reset" : "");
}

uint64_t Moved(const NicTraffic& traffic) { return std::max(traffic.sent_bytes, traffic.received_bytes); }

class Judge {
 public:
  Judge(const NcclFacts& facts, const std::vector<NicTraffic>& traffic, const TransportExpectation& expected)
      : facts_(facts), traffic_(traffic), expected_(expected) {
    const std::set<int64_t>& own = expected.local_ranks.empty() ? facts.local_ranks : expected.local_ranks;
    for (const NcclChannel& channel : facts.channels) {
      const bool inside = own.count(channel.from_rank) > 0 && own.count(channel.to_rank) > 0;
      (inside ? inside_ : channel.is_network() ? across_ : other_).push_back(&channel);
    }
  }

  TransportProof Run();

 private:
  using Lines = std::vector<std::string>;

  void CheckFallback();
  void CheckP2p();
  void CheckPlugin();
  void CheckGdr();
  void CheckNics();
  void CheckNvls();
  bool HasEvidence() const;
  void Add(TransportVerdict verdict, std::string detail, Lines evidence);
  std::vector<TransportUse> Uses() const;

  bool IsExpectedNetwork(absl::string_view name) const;
  bool UsesSocket() const;
  // Bytes of RDMA devices, or of network interfaces.
  uint64_t MovedBy(bool rdma) const;
  Lines TrafficLines(bool rdma) const;
  static void Append(const Lines& from, Lines* to) { to->insert(to->end(), from.begin(), from.end()); }

  const NcclFacts& facts_;
  const std::vector<NicTraffic>& traffic_;
  const TransportExpectation& expected_;
  std::vector<const NcclChannel*> inside_;  // between two GPUs of this host
  std::vector<const NcclChannel*> across_;  // over a network to another host
  std::vector<const NcclChannel*> other_;   // e.g. of ranks that the log did not introduce
  TransportProof proof_;
};

void Judge::Add(TransportVerdict verdict, std::string detail, Lines evidence) {
  Lines kept;
  for (std::string& line : evidence) {
    if (kept.size() == kMaxEvidence) break;
    if (std::find(kept.begin(), kept.end(), line) == kept.end()) kept.push_back(std::move(line));
  }
  proof_.findings.push_back({verdict, std::move(detail), std::move(kept)});
}

bool Judge::IsExpectedNetwork(absl::string_view name) const {
  if (expected_.networks.empty())
    return !expected_.has_rdma_fabric || !absl::EqualsIgnoreCase(name, "Socket");
  return std::any_of(expected_.networks.begin(), expected_.networks.end(),
                     [&](const std::string& one) { return absl::EqualsIgnoreCase(one, name); });
}

bool Judge::UsesSocket() const {
  if (facts_.network == "Socket") return true;
  return std::any_of(across_.begin(), across_.end(),
                     [](const NcclChannel* channel) { return channel->transport == "NET/Socket"; });
}

uint64_t Judge::MovedBy(bool rdma) const {
  uint64_t bytes = 0;
  for (const NicTraffic& traffic : traffic_)
    if (traffic.rdma == rdma) bytes += Moved(traffic);
  return bytes;
}

Judge::Lines Judge::TrafficLines(bool rdma) const {
  Lines lines;
  for (const NicTraffic& traffic : traffic_)
    if (traffic.rdma == rdma) lines.push_back(TrafficText(traffic));
  return lines;
}

// By what NCCL says, or by the counters: the log may promise RDMA while a plugin sends through sockets.
void Judge::CheckFallback() {
  const bool says_so = UsesSocket() && !IsExpectedNetwork("Socket");
  const auto bytes = static_cast<double>(expected_.network_bytes);
  const bool has_rdma_counters =
      std::any_of(traffic_.begin(), traffic_.end(), [](const NicTraffic& one) { return one.rdma; });
  const bool counted =
      expected_.has_rdma_fabric && bytes > 0 && has_rdma_counters &&
      static_cast<double>(MovedBy(true))<kNotCarried * bytes&& static_cast<double>(MovedBy(false))> kCarried *
          bytes;
  if (!says_so && !counted) return;
  Lines lines;
  for (const std::string& line : facts_.network_lines)
    if (absl::StrContains(line, "Using network Socket")) lines.push_back(line);
  for (const NcclChannel* channel : across_)
    if (channel->transport == "NET/Socket" && lines.size() < 3) lines.push_back(channel->line);
  for (const std::string& line : facts_.network_lines)
    if (absl::StrContains(line, "No device found") || absl::StrContains(line, "libibverbs"))
      lines.push_back(line);
  if (counted || !traffic_.empty()) {
    Append(TrafficLines(false), &lines);
    Append(TrafficLines(true), &lines);
  }
  const std::string promised =
      expected_.networks.empty() ? std::string("an RDMA fabric") : absl::StrJoin(expected_.networks, " or ");
  Add(TransportVerdict::kFellBackToTcp,
      absl::StrCat(says_so ? "NCCL uses TCP sockets" : "the network interfaces carried the bytes",
                   ", the node has ", promised),
      std::move(lines));
}

void Judge::CheckP2p() {
  if (!expected_.p2p) return;
  std::map<std::string, size_t> lost;
  Lines lines;
  for (const NcclChannel* channel : inside_) {
    if (absl::StartsWith(channel->transport, "P2P") || absl::StartsWith(channel->transport, "NVLS")) continue;
    ++lost[channel->transport];
    if (lines.size() < 4) lines.push_back(channel->line);
  }
  if (lost.empty()) return;
  Append(facts_.p2p_off_lines, &lines);
  const std::string kinds = absl::StrJoin(lost, ", ", [](std::string* out, const auto& kind) {
    absl::StrAppend(out, kind.second, " by ", kind.first);
  });
  Add(TransportVerdict::kP2pLost,
      absl::StrCat("of ", inside_.size(), " connections between GPUs of this host, ", kinds,
                   ", where peer to peer was expected"),
      std::move(lines));
}

// A plugin is only missed where the platform's network comes from one: NCCL looks for one everywhere.
void Judge::CheckPlugin() {
  const bool needs_plugin =
      !expected_.networks.empty() && !IsExpectedNetwork("IB") && !IsExpectedNetwork("Socket");
  if (!needs_plugin || facts_.plugin_failures.empty()) return;
  if (!facts_.network.empty() && IsExpectedNetwork(facts_.network)) return;
  Lines lines = facts_.plugin_failures;
  Append(facts_.network_lines, &lines);
  Add(TransportVerdict::kPluginMissing,
      absl::StrCat("the network plugin for ", absl::StrJoin(expected_.networks, " or "), " was not loaded"),
      std::move(lines));
}

// Sending without GPUDirect is a choice (NCCL_NET_GDR_READ=0) that old systems make; receiving without it is
// a loss.
void Judge::CheckGdr() {
  if (!expected_.gdr || UsesSocket()) return;
  Lines lines;
  size_t received = 0, without = 0;
  for (const NcclChannel* channel : across_) {
    if (!channel->receive) continue;
    ++received;
    if (channel->gdr) continue;
    ++without;
    if (lines.size() < 3) lines.push_back(channel->line);
  }
  bool disabled = false;
  for (const NcclGdr& gdr : facts_.gdr) {
    if (gdr.enabled || absl::EqualsIgnoreCase(gdr.network, "Socket")) continue;
    disabled = true;
    lines.push_back(gdr.line);
  }
  const bool ring_off = !across_.empty() && facts_.ring_gdr == false;
  if (ring_off) Append(facts_.ring_lines, &lines);
  if (without == 0 && !disabled && !ring_off) return;
  Add(TransportVerdict::kGdrOff,
      absl::StrCat("GPUDirect RDMA was not used for ", without, " of ", received,
                   " receiving network connections", disabled ? "; NCCL says that it is disabled" : "",
                   ring_off ? "; a hop of the ring is without it" : ""),
      std::move(lines));
}

void Judge::CheckNics() {
  // After a fall to TCP the NICs of the fabric are idle; that is said already.
  const bool fell_back = std::any_of(proof_.findings.begin(), proof_.findings.end(), [](const auto& one) {
    return one.verdict == TransportVerdict::kFellBackToTcp;
  });
  if (expected_.nics.empty() || fell_back) return;
  const std::set<std::string> wanted(expected_.nics.begin(), expected_.nics.end());
  // Names of bonds of several NICs are joined by '+'; a bare index names none.
  std::map<std::string, std::string> used;  // NIC and the line that says so
  for (const NcclChannel* channel : across_) {
    const std::string device = DeviceOf(facts_, *channel);
    if (device == channel->device) continue;
    for (const std::string& nic : std::vector<std::string>(absl::StrSplit(device, '+')))
      used.try_emplace(nic, channel->line);
  }
  Lines wrong, wrong_lines;
  for (const auto& [nic, line] : used) {
    if (wanted.count(nic) > 0) continue;
    wrong.push_back(nic);
    wrong_lines.push_back(line);
  }
  if (!wrong.empty())
    Add(TransportVerdict::kWrongNic,
        absl::StrCat("NCCL uses ", absl::StrJoin(wrong, ", "), ", not of ", absl::StrJoin(wanted, ", ")),
        std::move(wrong_lines));

  std::map<std::string, const NicTraffic*> counted;
  double total = 0;
  for (const NicTraffic& traffic : traffic_) {
    if (wanted.count(traffic.nic) == 0) continue;
    counted[traffic.nic] = &traffic;
    total += static_cast<double>(Moved(traffic));
  }
  const bool judge_counters = expected_.network_bytes > 0 && !counted.empty() &&
                              total > kCarried * static_cast<double>(expected_.network_bytes);
  const double mean = counted.empty() ? 0 : total / static_cast<double>(counted.size());
  Lines idle, idle_lines;
  for (const std::string& nic : wanted) {
    const auto traffic = counted.find(nic);
    const bool silent = judge_counters && traffic != counted.end() &&
                        static_cast<double>(Moved(*traffic->second)) < kUnusedShare * mean;
    // Counters are the better witness; without them the log must name devices at all.
    const bool unnamed =
        !(judge_counters && traffic != counted.end()) && !used.empty() && used.count(nic) == 0;
    if (!silent && !unnamed) continue;
    idle.push_back(nic);
    idle_lines.push_back(silent ? TrafficText(*traffic->second)
                                : absl::StrCat("no channel of ", across_.size(), " names ", nic));
  }
  if (idle.empty()) return;
  if (judge_counters)
    for (const auto& [nic, traffic] : counted) idle_lines.push_back(TrafficText(*traffic));
  for (const auto& [nic, line] : used) idle_lines.push_back(line);
  Add(TransportVerdict::kNicUnused,
      absl::StrCat(absl::StrJoin(idle, ", "), idle.size() == 1 ? " was" : " were", " not used"),
      std::move(idle_lines));
}

void Judge::CheckNvls() {
  if (!expected_.nvls || facts_.nvls == true) return;
  if (facts_.nvls == false) {
    Add(TransportVerdict::kNvlsLost, "NCCL finds no NVLink multicast", facts_.nvls_lines);
  } else if (!facts_.channels.empty()) {
    Add(TransportVerdict::kNvlsLost, "NCCL did not even try NVLink multicast: it is switched off",
        {absl::StrCat("no line on NVLS beside ", facts_.channel_count, " lines on channels")});
  }
}

bool Judge::HasEvidence() const {
  if (!facts_.channels.empty() || !facts_.network.empty() || !facts_.ring_lines.empty()) return true;
  const auto bytes = static_cast<double>(expected_.network_bytes);
  return bytes > 0 && static_cast<double>(MovedBy(expected_.has_rdma_fabric)) > kCarried * bytes;
}

std::vector<TransportUse> Judge::Uses() const {
  std::map<std::tuple<std::string, std::string, bool>, uint32_t> counts;
  for (const NcclChannel& channel : facts_.channels)
    ++counts[{channel.transport, DeviceOf(facts_, channel), channel.gdr}];
  std::vector<TransportUse> uses;
  for (const auto& [use, count] : counts) {
    if (uses.size() == kMaxUses) break;
    uses.push_back({std::get<0>(use), std::get<1>(use), std::get<2>(use), count});
  }
  return uses;
}

TransportProof Judge::Run() {
  proof_.network = facts_.network;
  proof_.nccl_version = facts_.version;
  proof_.plugin = facts_.plugin;
  proof_.uses = Uses();
  proof_.traffic = traffic_;
  proof_.nvls = facts_.nvls;
  proof_.unknown_lines = facts_.unknown_count;
  // In order of what they cost.
  CheckFallback();
  CheckP2p();
  CheckPlugin();
  CheckGdr();
  CheckNics();
  CheckNvls();
  if (proof_.findings.empty() && !HasEvidence())
    Add(TransportVerdict::kNoEvidence, "neither NCCL's log nor the NICs' counters say what carried the bytes",
        facts_.unknown);
  proof_.verdict = proof_.findings.empty() ? TransportVerdict::kOk : proof_.findings.front().verdict;
  return std::move(proof_);
}

}  // namespace

TransportProof JudgeTransport(const NcclFacts& facts, const std::vector<NicTraffic>& traffic,
                              const TransportExpectation& expected) {
  return Judge(facts, traffic, expected).Run();
}

const char* TransportVerdictName(TransportVerdict verdict) {
  switch (verdict) {
    case TransportVerdict::kOk:
      return "OK";
    case TransportVerdict::kFellBackToTcp:
      return "FELL_BACK_TO_TCP";
    case TransportVerdict::kGdrOff:
      return "GDR_OFF";
    case TransportVerdict::kPluginMissing:
      return "PLUGIN_MISSING";
    case TransportVerdict::kWrongNic:
      return "WRONG_NIC";
    case TransportVerdict::kNicUnused:
      return "NIC_UNUSED";
    case TransportVerdict::kNvlsLost:
      return "NVLS_LOST";
    case TransportVerdict::kP2pLost:
      return "P2P_LOST";
    case TransportVerdict::kNoEvidence:
      return "NO_EVIDENCE";
  }
  return "UNKNOWN";
}

}  // namespace weft
