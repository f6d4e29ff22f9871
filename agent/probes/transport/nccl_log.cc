#include "agent/probes/transport/nccl_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr size_t kMaxLineBytes = 4096;
constexpr size_t kMaxKeptBytes = 512;
constexpr size_t kMaxNameBytes = 64;
constexpr size_t kMaxKeptLines = 64;
constexpr size_t kMaxDevices = 512;
constexpr size_t kMaxRanks = 4096;

// As a person may see it.
std::string Shown(absl::string_view text, size_t max_bytes) {
  return CutUtf8(EscapeControl(ToValidUtf8(text.substr(0, max_bytes))), max_bytes);
}

std::string Name(absl::string_view text) { return Shown(absl::StripAsciiWhitespace(text), kMaxNameBytes); }

// What lies between `begin` and the next `end`, or the rest if there is none; nullopt without `begin`.
std::optional<absl::string_view> Between(absl::string_view text, absl::string_view begin,
                                         absl::string_view end) {
  const size_t at = text.find(begin);
  if (at == absl::string_view::npos) return std::nullopt;
  text.remove_prefix(at + begin.size());
  return text.substr(0, text.find(end));
}

// Digits in front of `text`, taken off it; nullopt if there are none or too many.
std::optional<int64_t> TakeNumber(absl::string_view* text) {
  size_t digits = 0;
  while (digits < text->size() && absl::ascii_isdigit(static_cast<unsigned char>((*text)[digits]))) ++digits;
  int64_t number = 0;
  if (!absl::SimpleAtoi(text->substr(0, digits), &number)) return std::nullopt;
  text->remove_prefix(digits);
  return number;
}

// "12[c7000]" or "12[3]": the rank, and the rest after the bracket.
std::optional<int64_t> TakeRank(absl::string_view* text) {
  const std::optional<int64_t> rank = TakeNumber(text);
  if (!rank || !absl::ConsumePrefix(text, "[")) return std::nullopt;
  const size_t end = text->find(']');
  if (end == absl::string_view::npos) return std::nullopt;
  text->remove_prefix(end + 1);
  return rank;
}

// One line without its prefix.
class LineParser {
 public:
  // `line` is the whole line, `message` what follows "NCCL INFO ".
  LineParser(NcclFacts* facts, absl::string_view line, absl::string_view message)
      : facts_(*facts), line_(line), message_(message) {}

  // False when the line is of no known shape.
  bool Parse();

 private:
  bool ParseVersion();
  bool ParseNetwork();
  bool ParseDevices();
  bool ParsePlugin();
  bool ParseGdr();
  bool ParseChannel();
  bool ParseVia(absl::string_view via, NcclChannel* channel) const;
  bool ParseRings();
  bool ParseNvls();
  bool ParseRank();
  bool ParseTrouble();
  bool IsKnownAndUseless() const;

  void Keep(std::vector<std::string>* lines) const {
    if (lines->size() < kMaxKeptLines) lines->push_back(Shown(line_, kMaxKeptBytes));
  }
  bool Has(absl::string_view part) const { return absl::StrContains(message_, part); }
  bool Begins(absl::string_view part) const { return absl::StartsWith(message_, part); }

  NcclFacts& facts_;
  const absl::string_view line_;
  const absl::string_view message_;
};

bool LineParser::ParseVersion() {
  const auto version = Between(message_, "NCCL version ", " ");
  if (!version || version->empty() || !absl::ascii_isdigit(static_cast<unsigned char>(version->front())))
    return false;
  facts_.version = Name(*version);
  return true;
}

bool LineParser::ParseNetwork() {
  if (const auto name = Between(message_, "Using network ", "\n"); name && Begins("Using network ")) {
    facts_.network = Name(*name);
    Keep(&facts_.network_lines);
    return true;
  }
  if (Begins("NET/IB : No device found") || Has("Failed to open libibverbs.so")) {
    Keep(&facts_.network_lines);
    return true;
  }
  return false;
}

// "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>".
bool LineParser::ParseDevices() {
  const auto network = Between(message_, "NET/", " : Using [");
  const auto list = Between(message_, " : Using ", ";");
  if (!Begins("NET/") || !network || !list || network->size() > kMaxNameBytes) return false;
  std::map<std::string, std::string>& devices = facts_.devices[Name(*network)];
  for (absl::string_view item : absl::StrSplit(*list, ' ', absl::SkipEmpty())) {
    if (!absl::ConsumePrefix(&item, "[")) continue;
    const std::optional<int64_t> index = TakeNumber(&item);
    if (!index || !absl::ConsumePrefix(&item, "]") || devices.size() >= kMaxDevices) continue;
    devices[absl::StrCat(*index)] = Name(item.substr(0, item.find(':')));
  }
  Keep(&facts_.network_lines);
  return true;
}

bool LineParser::ParsePlugin() {
  // "Failed to find ncclNetPlugin_v9 symbol" only means that an older interface is tried next.
  const bool failed =
      (Begins("NET/Plugin") && (Has("No plugin found") || Has("Could not find") || Has("dlerror") ||
                                Has("Plugin load") || Has("Failed to find ncclNetPlugin symbol"))) ||
      Has("Failed to initialize any NET plugin");
  if (failed) {
    Keep(&facts_.plugin_failures);
    Keep(&facts_.network_lines);
    return true;
  }
  // Of the built-in ones, too, it says that they were initialised and assigned.
  for (const absl::string_view begin :
       {"Successfully loaded external network plugin ", "Initialized NET plugin ", "Assigned NET plugin "}) {
    const auto name = Between(message_, begin, " to comm");
    if (!name || !Begins(begin)) continue;
    const std::string plugin = Name(*name);
    if (plugin != "IB" && plugin != "Socket") facts_.plugin = plugin;
    Keep(&facts_.network_lines);
    return true;
  }
  // "NET/Plugin: Loaded net plugin AWS Libfabric (v8)", up to 2.26.
  if (const auto name = Between(message_, "Loaded net plugin ", " (v"); name && Begins("NET/Plugin")) {
    facts_.plugin = Name(*name);
    Keep(&facts_.network_lines);
    return true;
  }
  if (const auto count = Between(message_, "(found ", " nics)"); count && Has("elected provider is")) {
    absl::string_view digits = *count;
    if (const auto number = TakeNumber(&digits); number && *number <= 1024)
      facts_.found_nics = static_cast<uint32_t>(*number);
    Keep(&facts_.network_lines);
    return true;
  }
  return false;
}

bool LineParser::ParseGdr() {
  const auto network = Between(message_, "NET/", " : GPU Direct RDMA ");
  if (!Begins("NET/") || !network || !Has(" : GPU Direct RDMA ") || network->size() > kMaxNameBytes)
    return false;
  NcclGdr gdr;
  gdr.network = Name(*network);
  gdr.enabled = Has("GPU Direct RDMA Enabled");
  gdr.nic = Name(Between(message_, "'", "'").value_or(""));
  gdr.line = Shown(line_, kMaxKeptBytes);
  const std::string index = Name(Between(message_, "for HCA ", " ").value_or(""));
  std::map<std::string, std::string>& devices = facts_.devices[gdr.network];
  if (!gdr.nic.empty() && devices.size() < kMaxDevices) devices[index] = gdr.nic;
  if (facts_.gdr.size() < kMaxDevices) facts_.gdr.push_back(std::move(gdr));
  return true;
}

// "NET/IB/0(4)/GDRDMA/Shared", "P2P/CUMEM/read", "SHM/direct/direct", "P2P/direct pointer".
bool LineParser::ParseVia(absl::string_view via, NcclChannel* channel) const {
  via = absl::StripAsciiWhitespace(via);
  const std::vector<absl::string_view> parts = absl::StrSplit(via, '/');
  if (via == "direct shared memory") {
    channel->transport = "SHM/direct";
    return true;
  }
  const absl::string_view kind = parts[0];
  if (kind != "NET" && kind != "P2P" && kind != "SHM" && kind != "COLLNET" && kind != "NVLS") return false;
  channel->transport = parts.size() < 2 ? Name(kind) : Name(absl::StrCat(kind, "/", parts[1]));
  if (kind != "NET" && kind != "COLLNET") return true;
  if (parts.size() > 2) channel->device = Name(parts[2].substr(0, parts[2].find('(')));
  channel->gdr = std::any_of(parts.begin(), parts.end(),
                             [](absl::string_view part) { return absl::StartsWith(part, "GDRDMA"); });
  return true;
}

// "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0".
bool LineParser::ParseChannel() {
  const size_t at = message_.find(" via ");
  const size_t colon = message_.find(" : ");
  if (!Begins("Channel ") || at == absl::string_view::npos || colon == absl::string_view::npos || colon > at)
    return false;
  NcclChannel channel;
  absl::string_view ranks = absl::StripAsciiWhitespace(message_.substr(colon + 3, at - colon - 3));
  channel.receive = absl::ConsumeSuffix(&ranks, "[receive]");
  const std::optional<int64_t> from = TakeRank(&ranks);
  if (!from || !absl::ConsumePrefix(&ranks, " -> ")) return false;
  const std::optional<int64_t> to = TakeRank(&ranks);
  if (!to || !ParseVia(message_.substr(at + 5), &channel)) return false;
  channel.from_rank = *from;
  channel.to_rank = *to;
  ++facts_.channel_count;
  if (facts_.channels.size() >= kMaxNcclChannels) return true;
  channel.line = Shown(line_, kMaxKeptBytes);
  facts_.channels.push_back(std::move(channel));
  return true;
}

bool LineParser::ParseRings() {
  if (!Begins("Connected all rings")) return false;
  if (const auto gdr = Between(message_, " GDR ", " "); gdr && (*gdr == "0" || *gdr == "1"))
    facts_.ring_gdr = facts_.ring_gdr.value_or(true) && *gdr == "1";
  Keep(&facts_.ring_lines);
  return true;
}

bool LineParser::ParseNvls() {
  if (Begins("NVLS multicast support is ")) {
    facts_.nvls = facts_.nvls.value_or(true) && !Has("is not available");
    Keep(&facts_.nvls_lines);
    return true;
  }
  if (Begins("Connected NVLS tree")) {
    Keep(&facts_.nvls_lines);
    return true;
  }
  if (Begins("DMA-BUF is available")) {
    facts_.dma_buf = true;
    return true;
  }
  return false;
}

// "ncclCommInitRankConfig comm 0x… rank 1 nranks 2 cudaDev 0 … - Init COMPLETE".
bool LineParser::ParseRank() {
  const auto rank_text = Between(message_, " rank ", " nranks ");
  if (!rank_text || !Has(" nranks ")) return false;
  absl::string_view digits = *rank_text;
  const std::optional<int64_t> rank = TakeNumber(&digits);
  if (!rank || !digits.empty()) return false;
  if (facts_.local_ranks.size() < kMaxRanks) facts_.local_ranks.insert(*rank);
  facts_.init_complete = facts_.init_complete || Has("Init COMPLETE");
  return true;
}

bool LineParser::ParseTrouble() {
  if (Has("P2P is disabled between")) {
    Keep(&facts_.p2p_off_lines);
    return true;
  }
  if (Has("Got async event") || Has("speed change detected")) {
    Keep(&facts_.link_events);
    return true;
  }
  return false;
}

bool LineParser::IsKnownAndUseless() const {
  for (const absl::string_view begin : {"Bootstrap",
                                        "Connected all trees",
                                        "Trees [",
                                        "Setting affinity",
                                        "comm 0x",
                                        "Init timings",
                                        "Ring ",
                                        "P2P Chunksize",
                                        "cudaDriverVersion",
                                        "ncclCommInit",
                                        "ncclCommSplit",
                                        "threadThresholds",
                                        "NET/Plugin",
                                        "Plugin Path",
                                        "P2P plugin",
                                        "TUNER/Plugin",
                                        "PROFILER/Plugin",
                                        "RAS ",
                                        "Using non-device net plugin",
                                        "NCCL_",
                                        "ENV/Plugin",
                                        "DMA-BUF",
                                        "MNNVL ",
                                        "NVLS ",
                                        "CC Off",
                                        "Comm config",
                                        "Check P2P Type"})
    if (Begins(begin)) return true;
  // "Channel 00/24 :    0   1   2   3" tells the order of a ring; "24 coll channels, 16 nvls channels"
  // counts.
  return (Begins("Channel ") && !Has(" via ")) || Has(" coll channels");
}

bool LineParser::Parse() {
  return ParseVersion() || ParseDevices() || ParseNetwork() || ParsePlugin() || ParseGdr() ||
         ParseChannel() || ParseRings() || ParseNvls() || ParseRank() || ParseTrouble() ||
         IsKnownAndUseless();
}

void ParseLine(absl::string_view line, NcclFacts* facts) {
  line = line.substr(0, kMaxLineBytes);
  if (absl::StripAsciiWhitespace(line).empty()) return;
  const bool warning = absl::StrContains(line, "NCCL WARN ");
  const size_t at = line.find(warning ? "NCCL WARN " : "NCCL INFO ");
  const absl::string_view message = at == absl::string_view::npos ? line : line.substr(at + 10);
  if (warning && facts->warnings.size() < kMaxKeptLines)
    facts->warnings.push_back(Shown(line, kMaxKeptBytes));
  if (LineParser(facts, line, message).Parse()) return;
  ++facts->unknown_count;
  if (facts->unknown.size() < kMaxNcclUnknown) facts->unknown.push_back(Shown(line, kMaxKeptBytes));
}

}  // namespace

NcclFacts ParseNcclLog(absl::string_view text) {
  NcclFacts facts;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    ParseLine(absl::StripSuffix(text.substr(0, end), "\r"), &facts);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return facts;
}

std::string DeviceOf(const NcclFacts& facts, const NcclChannel& channel) {
  const size_t slash = channel.transport.find('/');
  if (channel.device.empty() || slash == std::string::npos) return channel.device;
  const std::string name = channel.transport.substr(slash + 1);
  auto network = facts.devices.find(name);
  // A plugin that builds on NCCL's own InfiniBand code lists its devices as "NET/IB" and calls itself
  // IBext_v8.
  if (network == facts.devices.end() && absl::StartsWith(name, "IB")) network = facts.devices.find("IB");
  if (network == facts.devices.end()) return channel.device;
  const auto device = network->second.find(channel.device);
  return device == network->second.end() ? channel.device : device->second;
}

}  // namespace weft
