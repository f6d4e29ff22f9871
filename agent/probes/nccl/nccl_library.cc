#include "agent/probes/nccl/nccl_library.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "agent/probes/cuda/shared_library.h"

namespace weft::nccl {
namespace {

std::string LibraryName() {
  const char* const name = getenv("WEFT_NCCL_LIBRARY");
  return name != nullptr && *name != '\0' ? name : "libnccl.so.2";
}

}  // namespace

std::string VersionText(int version) {
  // Before 2.9 the minor version had one digit.
  if (version < 10000) return absl::StrCat(version / 1000, ".", version % 1000 / 100, ".", version % 100);
  return absl::StrCat(version / 10000, ".", version % 10000 / 100, ".", version % 100);
}

absl::Status NcclLibrary::Resolve() {
  const absl::StatusOr<SharedLibrary> library = SharedLibrary::Open(LibraryName());
  if (!library.ok())
    return absl::NotFoundError(absl::StrCat(
        library.status().message(), "; install NCCL, or set nccl_library in the agent's configuration"));
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* symbol, bool required = true) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(library->Find(symbol));
    if (function == nullptr && required) missing = symbol;
  };
  find(GetVersion, "ncclGetVersion");
  find(GetErrorString, "ncclGetErrorString");
  find(GetUniqueId, "ncclGetUniqueId");
  find(CommInitRank, "ncclCommInitRank");
  find(CommDestroy, "ncclCommDestroy");
  find(CommAbort, "ncclCommAbort");
  find(CommGetAsyncError, "ncclCommGetAsyncError");
  find(GroupStart, "ncclGroupStart");
  find(GroupEnd, "ncclGroupEnd");
  find(AllReduce, "ncclAllReduce");
  find(AllGather, "ncclAllGather");
  find(ReduceScatter, "ncclReduceScatter");
  find(Broadcast, "ncclBroadcast");
  find(Send, "ncclSend");
  find(Recv, "ncclRecv");
  find(CommInitRankConfig, "ncclCommInitRankConfig", false);
  find(CommFinalize, "ncclCommFinalize", false);
  find(GetLastError, "ncclGetLastError", false);
  path_ = SharedLibrary::FileOf(reinterpret_cast<void*>(GetVersion));
  if (missing == nullptr) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(path_.empty() ? LibraryName() : path_, " has no ", missing,
                                          "; NCCL ", VersionText(kLeastVersion), " or later is needed"));
}

absl::StatusOr<std::unique_ptr<NcclLibrary>> NcclLibrary::Load() {
  std::unique_ptr<NcclLibrary> library(new NcclLibrary);
  if (absl::Status s = library->Resolve(); !s.ok()) return s;
  if (absl::Status s = library->Check(library->GetVersion(&library->version_), "ncclGetVersion"); !s.ok())
    return s;
  if (library->version_ < kLeastVersion)
    return absl::UnimplementedError(absl::StrCat(library->path_, " is NCCL ", VersionText(library->version_),
                                                 "; ", VersionText(kLeastVersion), " or later is needed"));
  return library;
}

absl::Status NcclLibrary::Check(ncclResult_t code, absl::string_view what) const {
  if (code == ncclSuccess || code == ncclInProgress) return absl::OkStatus();
  std::string text = absl::StrCat(what, ": ", GetErrorString(code));
  const char* const last = GetLastError != nullptr ? GetLastError(nullptr) : nullptr;
  if (last != nullptr && *last != '\0') absl::StrAppend(&text, " (", last, ")");
  return absl::InternalError(text);
}

std::vector<std::string> NcclLibrary::Limits() const {
  std::vector<std::string> limits;
  if (!can_start_without_blocking())
    limits.push_back(
        absl::StrCat("NCCL ", VersionText(version_),
                     " starts communicators only blocking (2.14 does without): one that hangs in "
                     "that ends with its process"));
  if (CommFinalize == nullptr)
    limits.push_back(absl::StrCat("NCCL ", VersionText(version_), " has no ncclCommFinalize"));
  return limits;
}

}  // namespace weft::nccl
