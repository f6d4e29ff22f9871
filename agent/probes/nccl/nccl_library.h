// NCCL, loaded at run time: the very library that the node's jobs use. Works with 2.12 and later. Its
// functions may hang; see DeviceRanks for who calls them.
#pragma once

#include <nccl.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft::nccl {

// Oldest version that the probe knows.
inline constexpr int kLeastVersion = 21200;

// "2.28.3" for 22803.
std::string VersionText(int version);

// Any thread. The members are NCCL's functions without their prefix.
class NcclLibrary {
 public:
  // WEFT_NCCL_LIBRARY of the environment, else libnccl.so.2. kNotFound, saying what to do, when there is none
  // or it lacks a function; kUnimplemented when it is older than kLeastVersion.
  static absl::StatusOr<std::unique_ptr<NcclLibrary>> Load();

  // OK also for ncclInProgress. kInternal with `what`, NCCL's words, and its last error where it keeps one.
  absl::Status Check(ncclResult_t code, absl::string_view what) const;

  int version() const { return version_; }
  // File it came from.
  const std::string& path() const { return path_; }
  // Communicators can be made without blocking (2.14).
  bool can_start_without_blocking() const { return CommInitRankConfig != nullptr; }
  // What this version cannot do, one line each.
  std::vector<std::string> Limits() const;

  decltype(&ncclGetVersion) GetVersion = nullptr;
  decltype(&ncclGetErrorString) GetErrorString = nullptr;
  decltype(&ncclGetUniqueId) GetUniqueId = nullptr;
  decltype(&ncclCommInitRank) CommInitRank = nullptr;
  decltype(&ncclCommDestroy) CommDestroy = nullptr;
  decltype(&ncclCommAbort) CommAbort = nullptr;
  decltype(&ncclCommGetAsyncError) CommGetAsyncError = nullptr;
  decltype(&ncclGroupStart) GroupStart = nullptr;
  decltype(&ncclGroupEnd) GroupEnd = nullptr;
  decltype(&ncclAllReduce) AllReduce = nullptr;
  decltype(&ncclAllGather) AllGather = nullptr;
  decltype(&ncclReduceScatter) ReduceScatter = nullptr;
  decltype(&ncclBroadcast) Broadcast = nullptr;
  decltype(&ncclSend) Send = nullptr;
  decltype(&ncclRecv) Recv = nullptr;
  // Null before 2.14 (GetLastError: 2.13).
  decltype(&ncclCommInitRankConfig) CommInitRankConfig = nullptr;
  decltype(&ncclCommFinalize) CommFinalize = nullptr;
  decltype(&ncclGetLastError) GetLastError = nullptr;

 private:
  NcclLibrary() = default;
  absl::Status Resolve();

  int version_ = 0;
  std::string path_;
};

}  // namespace weft::nccl
