#include "agent/probes/nccl/settings.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/text.h"

extern char** environ;

namespace weft::nccl {
namespace {

constexpr size_t kMaxSettings = 128;
constexpr size_t kMaxValueBytes = 256;
constexpr size_t kMaxFingerprintBytes = 512;
constexpr absl::string_view kPrefix = "NCCL_";

struct Found {
  std::string value;
  std::string source;
};

// Adds NAME=value unless the name is there already.
void Add(absl::string_view line, const std::string& source, std::map<std::string, Found>* found) {
  const std::pair<absl::string_view, absl::string_view> kv = absl::StrSplit(line, absl::MaxSplits('=', 1));
  const absl::string_view name = absl::StripAsciiWhitespace(kv.first);
  if (!absl::StartsWith(name, kPrefix) || !IsSafeName(name) || !absl::StrContains(line, "=")) return;
  found->emplace(std::string(name),
                 Found{CutUtf8(ToValidUtf8(absl::StripAsciiWhitespace(kv.second)), kMaxValueBytes), source});
}

std::string HomeSettings() {
  const passwd* const user = getpwuid(getuid());
  return user != nullptr && user->pw_dir != nullptr ? absl::StrCat(user->pw_dir, "/.nccl.conf") : "";
}

}  // namespace

std::vector<v1::NcclSetting> EffectiveSettings(const std::vector<std::string>& environment,
                                               const std::vector<SettingsFile>& files,
                                               const std::vector<std::string>& set_by_probe) {
  std::map<std::string, Found> found;
  for (const std::string& entry : environment) Add(entry, "environment", &found);
  for (const std::string& name : set_by_probe)
    if (const auto it = found.find(name); it != found.end()) it->second.source = "probe";
  for (const SettingsFile& file : files)
    for (const absl::string_view line : absl::StrSplit(file.content, '\n'))
      if (!absl::StartsWith(absl::StripLeadingAsciiWhitespace(line), "#")) Add(line, file.path, &found);
  std::vector<v1::NcclSetting> settings;
  for (const auto& [name, entry] : found) {
    if (settings.size() == kMaxSettings) break;
    v1::NcclSetting& setting = settings.emplace_back();
    setting.set_name(name);
    setting.set_value(entry.value);
    setting.set_source(entry.source);
  }
  return settings;
}

std::vector<SettingsFile> ReadSettingsFiles() {
  const char* const named = getenv("NCCL_CONF_FILE");
  std::vector<SettingsFile> files;
  for (const std::string& path :
       {named != nullptr ? std::string(named) : HomeSettings(), std::string("/etc/nccl.conf")}) {
    if (path.empty()) continue;
    if (absl::StatusOr<std::string> content = ReadFile(path); content.ok())
      files.push_back({path, *std::move(content)});
  }
  return files;
}

std::string FingerprintOf(const std::vector<v1::NcclSetting>& settings) {
  std::string text;
  for (const v1::NcclSetting& setting : settings) {
    const bool differs_or_harmless = absl::StartsWith(setting.name(), "NCCL_DEBUG") ||
                                     absl::StartsWith(setting.name(), "NCCL_RAS") ||
                                     setting.name() == "NCCL_HOSTID" || setting.name() == "NCCL_CONF_FILE";
    if (!differs_or_harmless)
      absl::StrAppend(&text, text.empty() ? "" : " ", setting.name(), "=", setting.value());
  }
  return CutUtf8(text, kMaxFingerprintBytes);
}

std::vector<std::string> SetOwnSettings(const std::string& require_network) {
  std::vector<std::pair<std::string, std::string>> own = {
      {"NCCL_RAS_ENABLE", "0"}, {"NCCL_DEBUG", "INFO"}, {"NCCL_DEBUG_SUBSYS", "INIT,BOOTSTRAP,ENV,NET"}};
  if (!require_network.empty()) own.emplace_back("NCCL_NET", require_network);
  std::vector<std::string> names;
  for (const auto& [name, value] : own) {
    setenv(name.c_str(), value.c_str(), 1);
    names.push_back(name);
  }
  // The log belongs on stdout, where it is captured.
  unsetenv("NCCL_DEBUG_FILE");
  return names;
}

std::vector<std::string> OwnEnvironment() {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  return environment;
}

}  // namespace weft::nccl
