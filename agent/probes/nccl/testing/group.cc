#include "agent/probes/nccl/testing/group.h"

#include <cstdlib>
#include <filesystem>
#include <future>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/runner/cancel_token.h"
#include "agent/runner/runner.h"

namespace weft::nccl {
namespace {

namespace fs = std::filesystem;

fs::path BinDir() {
  const char* const dir = std::getenv("WEFT_BIN_DIR");
  return dir ? fs::path(dir) : fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "bin";
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "weft-nccl-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

v1::ProbeRequest MakeRequest(const GroupOptions& options, size_t participant) {
  v1::ProbeRequest request;
  request.set_run_id("group");
  request.mutable_spec()->set_name("nccl_group");
  *request.mutable_spec()->mutable_nccl() = options.probe;
  request.set_rank(static_cast<uint32_t>(participant));
  request.set_world_size(static_cast<uint32_t>(options.members.size()));
  request.mutable_deadline()->set_seconds(absl::ToInt64Seconds(options.deadline));
  return request;
}

std::vector<std::string> Environment(const GroupOptions& options, const Member& member,
                                     const std::string& folder) {
  const fs::path fakes = BinDir().parent_path() / "tests" / "fake_gpu";
  std::vector<std::string> all = {
      absl::StrCat("WEFT_CUDA_LIBRARY=", (fakes / "libcuda.so.1").string()),
      absl::StrCat("WEFT_NCCL_LIBRARY=",
                   (fakes / absl::StrCat("nccl", options.nccl_variant) / "libnccl.so.2").string()),
      absl::StrCat("WEFT_FAKE_DIR=", folder), absl::StrCat("WEFT_FAKE_GPUS=", member.gpus),
      absl::StrCat("WEFT_FAKE_NCCL_FAULTS=", member.faults.empty() ? options.faults : member.faults)};
  // The first of a name counts.
  all.insert(all.begin(), member.environment.begin(), member.environment.end());
  return all;
}

}  // namespace

std::vector<v1::Result> RunGroup(const GroupOptions& options) {
  const TemporaryFolder folder;
  Reaper reaper;
  CancelToken cancel;
  std::vector<v1::Result> results(options.members.size());
  std::promise<std::string> offered;
  const auto run = [&](size_t participant, const std::string& rendezvous,
                       const std::function<void(std::string)>& on_rendezvous) {
    ProbeRunner runner({.probe_dir = BinDir().string(),
                        .environment = Environment(options, options.members[participant], folder.path())},
                       reaper);
    v1::ProbeRequest request = MakeRequest(options, participant);
    request.set_rendezvous(rendezvous);
    results[participant] = runner.Run(request, on_rendezvous, cancel);
  };
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    bool given = false;
    run(0, "", [&](std::string rendezvous) {
      given = true;
      offered.set_value(std::move(rendezvous));
    });
    if (!given) offered.set_value("");
  });
  const std::string rendezvous = offered.get_future().get();
  for (size_t i = 1; i < options.members.size() && !rendezvous.empty(); ++i)
    threads.emplace_back([&, i] { run(i, rendezvous, nullptr); });
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace weft::nccl
