// Reading of /sys and /proc, where files vanish, lie and hold "N/A". Whatever cannot be understood is
// unknown, never an error and never a made-up number. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft {

// First line without blanks around it. Empty when unreadable, "N/A…", longer than 256 bytes, or not printable
// ASCII.
std::string ReadSysfsText(const std::string& path);
// A number not below zero; nullopt for anything else.
std::optional<uint64_t> ReadSysfsNumber(const std::string& path);
// Names in a folder, sorted; at most 1,024; empty when unreadable.
std::vector<std::string> ListFolder(const std::string& path);
// Last part of where a symbolic link points; empty if it is none.
std::string LinkTarget(const std::string& path);

}  // namespace weft
