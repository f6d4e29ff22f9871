// Keeps weft-gpu-inventory running and knows what it last said. The driver hangs in that process, never here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/runner/cancel_token.h"
#include "agent/runner/child_process.h"
#include "agent/runner/reaper.h"
#include "base/clock.h"
#include "base/framing.h"
#include "base/mutex.h"
#include "weft/v1/fleet.pb.h"
#include "weft/v1/gpu_reader.pb.h"

namespace weft {

// Thread-safe, but for Start and Stop, which its owner calls. At most one process of the reader exists at a
// time, also when it cannot be killed: as long as it stays, the facts only grow older, and say so.
class GpuWatch {
 public:
  struct Options {
    std::string executable;  // absolute path of weft-gpu-inventory
    std::vector<std::string> environment = {};
    Clock* clock = &Clock::Real();  // a real one: processes do not follow a simulated one
    absl::Duration report_interval = absl::Minutes(1);
    absl::Duration activity_interval = absl::Seconds(5);
    // While somebody pays attention.
    absl::Duration attention_interval = absl::Milliseconds(200);
    // How long the driver may take to start, and how long the reader may be silent beyond its pace, before it
    // counts as hung and is killed. Starting a GPU that slept takes seconds.
    absl::Duration start_patience = absl::Minutes(2);
    absl::Duration silence_patience = absl::Seconds(10);
    // Until a reader that ended is started again; the longer one where NVML is not here.
    absl::Duration retry = absl::Seconds(10);
    absl::Duration retry_absent = absl::Minutes(10);
  };
  // What is known of the GPUs.
  struct Facts {
    v1::GpuReport report;   // the last one; empty before the first
    v1::GpuSource source;   // how current it is
    uint64_t revision = 0;  // rises whenever report or problem change
  };
  // One look at who uses the GPUs, or why there is none: the reader has ended, or was killed for its silence.
  struct Reading {
    uint64_t number = 0;
    absl::StatusOr<v1::GpuActivity> activity;
  };

  GpuWatch(Options options, Reaper& reaper);
  ~GpuWatch();
  void Start();
  // Ends the reader; two seconds at most when it hangs. Idempotent.
  void Stop();

  Facts facts() const WEFT_EXCLUDES(mutex_);
  uint64_t revision() const WEFT_EXCLUDES(mutex_);  // of the facts
  // The last reading; its activity is kFailedPrecondition, saying why, when there is none that is younger
  // than two intervals.
  Reading last_reading() const WEFT_EXCLUDES(mutex_);
  // Waits for a reading with a greater number; nullopt when none comes within `patience`. One that comes
  // right after the call may have begun before it.
  std::optional<Reading> AwaitReading(uint64_t after, absl::Duration patience) WEFT_EXCLUDES(mutex_);

  // Readings come at the attention interval from the first to the last of these calls, which nest.
  void Attend() WEFT_EXCLUDES(mutex_);
  void Ignore() WEFT_EXCLUDES(mutex_);

 private:
  void Loop();
  // One life of the reader; returns when it is over or Stop was called. The result is how long to wait before
  // the next.
  absl::Duration RunReader();
  // Why the reader's life is over; OK when Stop was called.
  absl::Status Converse(ChildProcess& child);
  absl::Status TakeMessages(ChildProcess& child, FrameDecoder& decoder);
  void Take(const v1::GpuReaderMessage& message);
  void TakeReport(const v1::GpuReport& report) WEFT_EXCLUDES(mutex_);
  // False when the pipe is full or broken.
  bool SendPace(ChildProcess& child);
  void Fail(const std::string& problem) WEFT_EXCLUDES(mutex_);
  void Ring();
  absl::Duration Pace() const WEFT_EXCLUDES(mutex_);

  const Options options_;
  Reaper& reaper_;
  CancelToken stop_;
  const int bell_;  // eventfd: the pace has changed
  std::thread thread_;

  // The thread's own.
  std::string phase_;
  absl::Duration heard_;    // when the reader last said something
  std::string last_words_;  // the problem for whose sake the reader ends
  bool has_report_ = false;

  mutable Mutex mutex_;
  CondVar cv_;
  Facts facts_ WEFT_GUARDED_BY(mutex_);
  Reading reading_ WEFT_GUARDED_BY(mutex_);
  absl::Duration reading_time_ WEFT_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
  int attention_ WEFT_GUARDED_BY(mutex_) = 0;
};

}  // namespace weft
