// A GpuWatch over the real weft-gpu-inventory and the fake NVML, for tests.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "agent/idle/gpu_watch.h"
#include "agent/runner/process_tree.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {

class GpuWatchTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(Reaper::BecomeSubreaper().ok()); }

  GpuWatchTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "weft-gpu-XXXXXX").string();
    dir_ = mkdtemp(pattern.data());
    Be("gpus 2\n");
  }
  ~GpuWatchTest() override {
    watch_.reset();
    EXPECT_THAT(OwnChildren(), ::testing::IsEmpty());
    std::filesystem::remove_all(dir_);
  }

  // How the driver behaves from now on. In one step, so that nobody reads half of it.
  void Be(const std::string& behaviour) {
    std::ofstream(dir_ + "/next") << behaviour;
    std::filesystem::rename(dir_ + "/next", dir_ + "/state");
  }
  GpuWatch::Options Options() const {
    const char* bin = getenv("WEFT_BIN_DIR");
    return {.executable = absl::StrCat(bin == nullptr ? "." : bin, "/weft-gpu-inventory"),
            .environment = {"WEFT_NVML_LIBRARY=" WEFT_FAKE_NVML_LIBRARY,
                            absl::StrCat("WEFT_FAKE_NVML=", dir_, "/state")},
            .report_interval = absl::Seconds(1),
            .activity_interval = absl::Milliseconds(50),
            .attention_interval = absl::Milliseconds(20),
            .start_patience = absl::Seconds(20),
            .silence_patience = absl::Seconds(1),
            .retry = absl::Milliseconds(50),
            .retry_absent = absl::Milliseconds(50)};
  }
  GpuWatch& Start(GpuWatch::Options options) {
    watch_ = std::make_unique<GpuWatch>(std::move(options), reaper_);
    watch_->Start();
    return *watch_;
  }
  GpuWatch& Start() { return Start(Options()); }

  // Waits until `holds`, some time; false when it never did.
  static bool Await(const std::function<bool()>& holds) {
    const absl::Duration until = Clock::Real().Monotonic() + absl::Seconds(30);
    while (!holds()) {
      if (Clock::Real().Monotonic() > until) return false;
      usleep(5000);
    }
    return true;
  }
  bool AwaitProblem(const std::string& part) {
    return Await([&] { return watch_->facts().source.problem().find(part) != std::string::npos; });
  }
  bool AwaitGood() {
    return Await(
        [&] { return watch_->facts().source.problem().empty() && watch_->last_reading().activity.ok(); });
  }

  std::string dir_;
  Reaper reaper_;
  std::unique_ptr<GpuWatch> watch_;
};

}  // namespace weft
