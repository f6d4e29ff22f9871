// Small files. Any thread; blocking.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft {

// Whole content, at most 16 MiB (kOutOfRange); kNotFound, kPermissionDenied or another errno's code, with the
// path in the message.
absl::StatusOr<std::string> ReadFile(const std::string& path);
// Replaces the file as a whole and durably: temporary file, fsync, rename, fsync of the folder.
absl::Status WriteFileDurably(const std::string& path, absl::string_view content, unsigned mode = 0600);
// Makes the folder and its parents, mode 0700 where new.
absl::Status MakeFolders(const std::string& path);
// fsync of a folder, so that names created in it last.
absl::Status SyncFolder(const std::string& path);
// The running executable's folder.
std::string OwnFolder();
// Resident set size of this process in bytes; 0 if unknown.
uint64_t ResidentBytes();

}  // namespace weft
