// Random lives of a spool against a model that is a map.
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "agent/spool/spool.h"
#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "rapidcheck/gtest.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// Memory where there is some: thousands of fsyncs on a disk would take minutes.
std::string TestFolder() { return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ::testing::TempDir(); }

class Life {
 public:
  Life() {
    std::string pattern = TestFolder() + "/spool_XXXXXX";
    root_ = mkdtemp(pattern.data());
    folder_ = root_ + "/0";
    Open();
  }
  ~Life() {
    spool_ = nullptr;
    fs::remove_all(root_);
  }

  void Append() {
    std::vector<std::string> payloads;
    const int count = *rc::gen::inRange(1, 5);
    for (int i = 0; i < count; ++i) {
      payloads.push_back(absl::StrCat("payload ", ++made_));
      payloads.back().append(static_cast<size_t>(*rc::gen::inRange(0, 30000)), 'x');
    }
    const absl::StatusOr<uint64_t> first = spool_->Append(payloads);
    RC_ASSERT(first.ok());
    for (size_t i = 0; i < payloads.size(); ++i) {
      RC_ASSERT(used_.insert(*first + i).second);
      RC_ASSERT(*used_.rbegin() == *first + i);
      owed_[*first + i] = payloads[i];
    }
  }

  void OfferSome() {
    uint64_t before = UINT64_MAX;
    for (const SpooledRecord& record : spool_->Offer(static_cast<size_t>(*rc::gen::inRange(1, 6)), 1 << 20)) {
      RC_ASSERT(record.sequence < before);
      before = record.sequence;
      const auto it = owed_.find(record.sequence);
      RC_ASSERT(it != owed_.end());
      RC_ASSERT(it->second == record.payload);
      offered_.insert(record.sequence);
    }
  }

  void Judge(bool reject) {
    if (offered_.empty()) return;
    const uint64_t sequence = *rc::gen::elementOf(offered_);
    if (reject)
      spool_->Reject(spool_->epoch(), {{sequence, "because"}});
    else
      spool_->Ack(spool_->epoch(), {sequence});
    owed_.erase(sequence);
    offered_.erase(sequence);
  }

  void ReturnOffered() {
    spool_->ReturnOffered();
    offered_.clear();
  }

  void Reopen() {
    spool_ = nullptr;
    Open();
  }

  // What the power cut leaves: everything synced, perhaps a torn record behind it.
  void Crash() {
    const std::string next = absl::StrCat(root_, "/", ++crashes_);
    fs::copy(folder_, next, fs::copy_options::recursive);
    spool_ = nullptr;
    folder_ = next;
    if (*rc::gen::arbitrary<bool>()) Tear();
    Open();
  }

  // Everything owed is offered, and nothing else.
  void Settle() {
    ReturnOffered();
    while (spool_->waiting() > 0) OfferSome();
    RC_ASSERT(offered_.size() == owed_.size());
    RC_ASSERT(spool_->stats().records == owed_.size());
    RC_ASSERT(spool_->stats().lost_records == 0u);
    ReturnOffered();
  }

 private:
  void Open() {
    offered_.clear();
    absl::StatusOr<std::unique_ptr<Spool>> spool =
        Spool::Open({.folder = folder_, .max_bytes = 64 << 20, .segment_bytes = 64 << 10});
    RC_ASSERT(spool.ok());
    spool_ = *std::move(spool);
    if (epoch_.empty() || used_.empty()) epoch_ = spool_->epoch();
    RC_ASSERT(spool_->epoch() == epoch_);
  }

  void Tear() {
    std::string last;
    for (const auto& file : fs::directory_iterator(folder_))
      if (file.path().extension() == ".seg") last = std::max(last, file.path().string());
    if (last.empty()) return;
    std::string record;
    AppendRecord(UINT32_MAX, "torn away", &record);
    const size_t keep = static_cast<size_t>(*rc::gen::inRange<int>(1, static_cast<int>(record.size())));
    std::ofstream(last, std::ios::app | std::ios::binary) << record.substr(0, keep);
  }

  std::string root_;
  std::string folder_;
  std::string epoch_;
  std::unique_ptr<Spool> spool_;
  int made_ = 0;
  int crashes_ = 0;
  std::set<uint64_t> used_;
  std::set<uint64_t> offered_;
  std::map<uint64_t, std::string> owed_;
};

RC_GTEST_PROP(SpoolProperty, EverythingAppendedAndNotJudgedIsOfferedAgainAndNothingElse, ()) {
  Life life;
  const int steps = *rc::gen::inRange(1, 60);
  for (int i = 0; i < steps; ++i) {
    switch (*rc::gen::inRange(0, 9)) {
      case 0:
      case 1:
      case 2:
        life.Append();
        break;
      case 3:
        life.OfferSome();
        break;
      case 4:
      case 5:
        life.Judge(false);
        break;
      case 6:
        life.Judge(*rc::gen::arbitrary<bool>());
        break;
      case 7:
        *rc::gen::arbitrary<bool>() ? life.Reopen() : life.Crash();
        break;
      default:
        *rc::gen::arbitrary<bool>() ? life.ReturnOffered() : life.Settle();
    }
  }
  life.Settle();
}

}  // namespace
}  // namespace weft
