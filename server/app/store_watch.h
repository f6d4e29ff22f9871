// Tries the store now and then, so that a full or failing disk is known before a result meets it, and known
// to be well again although nobody writes.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/worker.h"
#include "store/store.h"

namespace weft {

class StoreWatch {
 public:
  StoreWatch(Store& store, Clock& clock, absl::Duration every = absl::Seconds(5));
  void Start() { worker_.Start(); }
  void Stop() { worker_.Stop(); }
  // How the latest try went, kUnavailable "cannot store: …" or OK. Any thread, quick.
  absl::Status status() const WEFT_EXCLUDES(mutex_);

 private:
  absl::Duration Step();

  Store& store_;
  const absl::Duration every_;
  mutable Mutex mutex_;
  std::string problem_ WEFT_GUARDED_BY(mutex_);
  Worker worker_;  // last: stops first
};

}  // namespace weft
