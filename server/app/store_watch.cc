#include "server/app/store_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace weft {

StoreWatch::StoreWatch(Store& store, Clock& clock, absl::Duration every)
    : store_(store), every_(every), worker_("store-watch", clock, [this] { return Step(); }) {}

absl::Status StoreWatch::status() const {
  MutexLock lock(mutex_);
  return problem_.empty() ? absl::OkStatus() : absl::UnavailableError(problem_);
}

absl::Duration StoreWatch::Step() {
  const absl::Status tried = store_.TestWrite();
  std::string problem = tried.ok() ? "" : absl::StrCat("cannot store: ", std::string(tried.message()));
  const bool was_well = status().ok();
  if (was_well && !tried.ok()) spdlog::error("{}; agents keep their results until it can", problem);
  if (!was_well && tried.ok()) spdlog::info("can store again");
  MutexLock lock(mutex_);
  problem_ = std::move(problem);
  return every_;
}

}  // namespace weft
