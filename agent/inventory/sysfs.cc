#include "agent/inventory/sysfs.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace weft {
namespace {

constexpr size_t kMaxText = 256;
constexpr size_t kMaxNames = 1024;

bool IsPrintable(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isprint(static_cast<unsigned char>(c)); });
}

// At most one byte more than a text may have. O_NONBLOCK: a FIFO in place of a file must not hang the agent.
std::string ReadStart(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return "";
  char buffer[kMaxText + 2];
  const ssize_t got = read(fd, buffer, sizeof(buffer));
  close(fd);
  return got <= 0 ? "" : std::string(buffer, static_cast<size_t>(got));
}

}  // namespace

std::string ReadSysfsText(const std::string& path) {
  const std::string content = ReadStart(path);
  absl::string_view line = absl::string_view(content).substr(0, content.find('\n'));
  line = absl::StripAsciiWhitespace(line);
  if (line.size() > kMaxText || absl::StartsWithIgnoreCase(line, "N/A") || !IsPrintable(line)) return "";
  return std::string(line);
}

std::optional<uint64_t> ReadSysfsNumber(const std::string& path) {
  uint64_t out = 0;
  if (!absl::SimpleAtoi(ReadSysfsText(path), &out)) return std::nullopt;
  return out;
}

std::vector<std::string> ListFolder(const std::string& path) {
  std::vector<std::string> out;
  std::error_code error;
  std::filesystem::directory_iterator it(path, error);
  for (; !error && it != std::filesystem::directory_iterator() && out.size() < kMaxNames; it.increment(error))
    out.push_back(it->path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

std::string LinkTarget(const std::string& path) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::read_symlink(path, error);
  return error ? "" : target.filename().string();
}

}  // namespace weft
