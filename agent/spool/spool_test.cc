#include "agent/spool/spool.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>
#include <thread>

#include <sys/resource.h>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spdlog/logger.h"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// Memory where there is some: thousands of fsyncs on a disk would take minutes.
std::string TestFolder() { return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ::testing::TempDir(); }
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SpoolTest : public ::testing::Test {
 protected:
  SpoolTest() {
    std::string pattern = TestFolder() + "/spool_XXXXXX";
    root_ = mkdtemp(pattern.data());
    folder_ = root_ + "/spool";
  }
  ~SpoolTest() override { fs::remove_all(root_); }

  std::unique_ptr<Spool> OpenAt(const std::string& folder, uint64_t max_bytes = 64 << 20) {
    absl::StatusOr<std::unique_ptr<Spool>> spool =
        Spool::Open({.folder = folder, .max_bytes = max_bytes, .segment_bytes = 0});
    EXPECT_TRUE(spool.ok()) << spool.status();
    return *std::move(spool);
  }
  std::unique_ptr<Spool> OpenSpool() { return OpenAt(folder_); }

  // A copy of the open folder is what a crash of the machine would leave.
  std::string Crash() {
    const std::string copy = absl::StrCat(root_, "/crash", ++crashes_);
    fs::copy(folder_, copy, fs::copy_options::recursive);
    return copy;
  }

  std::string root_;
  std::string folder_;
  int crashes_ = 0;
};

std::vector<SpooledRecord> OfferAll(Spool& spool) {
  std::vector<SpooledRecord> all;
  for (;;) {
    std::vector<SpooledRecord> batch = spool.Offer(100, 1 << 20);
    if (batch.empty()) return all;
    all.insert(all.end(), batch.begin(), batch.end());
  }
}

std::vector<std::string> Payloads(const std::vector<SpooledRecord>& records) {
  std::vector<std::string> out;
  for (const SpooledRecord& record : records) out.push_back(record.payload);
  return out;
}

std::vector<fs::path> SegmentFiles(const std::string& folder) {
  std::vector<fs::path> out;
  for (const auto& file : fs::directory_iterator(folder))
    if (file.path().extension() == ".seg") out.push_back(file.path());
  return out;
}

std::string PayloadOf(uint64_t sequence) {
  return absl::StrCat("result ", sequence, std::string(sequence % 7 * 40, 'x'));
}

TEST_F(SpoolTest, OffersTheNewestFirstAndNothingTwice) {
  const auto spool = OpenSpool();
  EXPECT_EQ(*spool->Append({"a", "b"}), 1u);
  EXPECT_EQ(*spool->AppendOne("c"), 3u);
  EXPECT_THAT(Payloads(spool->Offer(2, 1 << 20)), ElementsAre("c", "b"));
  ASSERT_TRUE(spool->AppendOne("d").ok());
  EXPECT_THAT(Payloads(spool->Offer(10, 1 << 20)), ElementsAre("d", "a"));
  EXPECT_THAT(spool->Offer(10, 1 << 20), IsEmpty());
}

TEST_F(SpoolTest, ABatchHoldsToItsBytesButOffersAtLeastOneRecord) {
  const auto spool = OpenSpool();
  ASSERT_TRUE(spool->Append({std::string(600, 'a'), std::string(600, 'b')}).ok());
  EXPECT_THAT(spool->Offer(10, 1000), SizeIs(1));
  EXPECT_THAT(spool->Offer(10, 1), SizeIs(1));
}

TEST_F(SpoolTest, WhatWasOfferedButNotJudgedIsOfferedAgain) {
  const auto spool = OpenSpool();
  ASSERT_TRUE(spool->Append({"a", "b", "c"}).ok());
  OfferAll(*spool);
  spool->Ack(spool->epoch(), {2});
  spool->ReturnOffered();
  EXPECT_THAT(Payloads(OfferAll(*spool)), ElementsAre("c", "a"));
}

TEST_F(SpoolTest, AnAckOfAnotherEpochIsIgnored) {
  const auto spool = OpenSpool();
  ASSERT_TRUE(spool->AppendOne("a").ok());
  spool->Ack("another", {1});
  EXPECT_EQ(spool->stats().records, 1u);
}

TEST_F(SpoolTest, RecordsAndAcksOutliveACrash) {
  const auto spool = OpenSpool();
  ASSERT_TRUE(spool->Append({"a", "b", "c"}).ok());
  spool->Ack(spool->epoch(), {1});
  const auto after = OpenAt(Crash());
  EXPECT_EQ(after->epoch(), spool->epoch());
  EXPECT_THAT(Payloads(OfferAll(*after)), ElementsAre("c", "b"));
  EXPECT_EQ(after->stats().lost_records, 0u);
}

TEST_F(SpoolTest, SequencesNeverComeAgainAfterAllSegmentsAreGone) {
  std::string epoch;
  for (uint64_t expected = 1; expected <= 3; ++expected) {
    const auto spool = OpenSpool();
    if (expected > 1) {
      EXPECT_EQ(spool->epoch(), epoch);
    }
    epoch = spool->epoch();
    EXPECT_EQ(*spool->AppendOne("x"), expected);
    spool->Ack(epoch, {expected});
  }
  EXPECT_THAT(SegmentFiles(folder_), IsEmpty());
}

TEST_F(SpoolTest, SequencesNeverComeAgainAfterACrashThatLostTheSegment) {
  const auto spool = OpenSpool();
  const uint64_t last = *spool->AppendOne("x");
  const std::string copy = Crash();
  for (const fs::path& segment : SegmentFiles(copy)) fs::remove(segment);
  const auto after = OpenAt(copy);
  EXPECT_EQ(after->epoch(), spool->epoch());
  EXPECT_GT(*after->AppendOne("y"), last);
}

TEST_F(SpoolTest, ALostStateFileStartsANewEpochAndKeepsTheRecords) {
  const auto spool = OpenSpool();
  ASSERT_TRUE(spool->Append({"a", "b"}).ok());
  const std::string copy = Crash();
  fs::remove(copy + "/state");
  const auto after = OpenAt(copy);
  EXPECT_NE(after->epoch(), spool->epoch());
  EXPECT_THAT(Payloads(OfferAll(*after)), ElementsAre("b", "a"));
}

TEST_F(SpoolTest, ASecondOpenerIsRefused) {
  const auto spool = OpenSpool();
  const auto second = Spool::Open({.folder = folder_});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use by another agent"));
}

TEST_F(SpoolTest, AFullSegmentIsRemovedWhenItsLastRecordIsAcknowledged) {
  const auto spool = OpenSpool();
  std::vector<uint64_t> sequences(30);
  std::iota(sequences.begin(), sequences.end(), 1u);
  for (size_t i = 0; i < sequences.size(); ++i)
    ASSERT_TRUE(spool->AppendOne(std::string(200 << 10, 'x')).ok());
  EXPECT_GE(SegmentFiles(folder_).size(), 2u);
  spool->Ack(spool->epoch(), sequences);
  EXPECT_THAT(SegmentFiles(folder_), IsEmpty());
  EXPECT_EQ(spool->stats().bytes, 0u);
}

TEST_F(SpoolTest, BeyondTheLimitTheOldestGoAndAreCountedAsAGap) {
  const auto spool = OpenAt(folder_, 1 << 20);
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(spool->AppendOne(std::string(10 << 10, 'x')).ok());
  const SpoolStats stats = spool->stats();
  EXPECT_LE(stats.bytes, 1u << 20);
  EXPECT_EQ(stats.records + stats.lost_records, 200u);
  ASSERT_THAT(stats.gaps, SizeIs(1));
  EXPECT_EQ(stats.gaps[0], (SpoolGap{1, stats.lost_records, stats.lost_records}));
  EXPECT_EQ(OfferAll(*spool).back().sequence, stats.lost_records + 1);
}

TEST_F(SpoolTest, RejectedRecordsAreSetAsideAndCountedAndNeverSentAgain) {
  auto spool = OpenSpool();
  ASSERT_TRUE(spool->Append({"good", "poison"}).ok());
  spool->Reject(spool->epoch(), {{2, "MALFORMED"}});
  EXPECT_THAT(Payloads(OfferAll(*spool)), ElementsAre("good"));
  EXPECT_THAT(*ReadFile(folder_ + "/rejected"), HasSubstr("MALFORMED\npoison"));
  spool = nullptr;
  spool = OpenSpool();
  EXPECT_EQ(spool->stats().rejected_records, 1u);
  EXPECT_THAT(Payloads(OfferAll(*spool)), ElementsAre("good"));
}

TEST_F(SpoolTest, TheRejectedFileIsBounded) {
  const auto spool = OpenSpool();
  for (uint64_t i = 1; i <= 30; ++i) {
    ASSERT_TRUE(spool->AppendOne(std::string(200 << 10, 'x')).ok());
    spool->Reject(spool->epoch(), {{i, "BAD"}});
  }
  EXPECT_LE(fs::file_size(folder_ + "/rejected") + fs::file_size(folder_ + "/rejected.old"), 2u << 20);
  EXPECT_EQ(spool->stats().rejected_records, 30u);
}

TEST_F(SpoolTest, AnOversizeRecordIsRefusedAndTheBacklogStillDrains) {
  const auto spool = OpenSpool();
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(spool->AppendOne(std::string(20 << 10, 'x')).ok());
  EXPECT_EQ(spool->AppendOne(std::string(5 << 20, 'x')).status().code(), absl::StatusCode::kInvalidArgument);
  size_t drained = 0;
  for (;;) {
    const std::vector<SpooledRecord> batch = spool->Offer(100, 1 << 20);
    if (batch.empty()) break;
    size_t bytes = 0;
    std::vector<uint64_t> sequences;
    for (const SpooledRecord& record : batch) {
      bytes += record.payload.size();
      sequences.push_back(record.sequence);
    }
    EXPECT_LE(bytes, 1u << 20);
    spool->Ack(spool->epoch(), sequences);
    drained += batch.size();
  }
  EXPECT_EQ(drained, 500u);
}

// A limit on file size stands for the full disk: write() fails half way in the same manner.
TEST_F(SpoolTest, AFullDiskRefusesTheAppendAndLosesNothingEarlier) {
  signal(SIGXFSZ, SIG_IGN);
  const auto spool = OpenSpool();
  ASSERT_TRUE(spool->Append({"a", "b"}).ok());
  const rlimit limit{4096, RLIM_INFINITY};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const absl::Status full = spool->AppendOne(std::string(8192, 'x')).status();
  const absl::Status still_full = spool->AppendOne(std::string(8192, 'x')).status();
  const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  EXPECT_EQ(full.code(), absl::StatusCode::kUnavailable) << full;
  EXPECT_EQ(still_full.code(), absl::StatusCode::kUnavailable) << still_full;
  ASSERT_TRUE(spool->AppendOne("c").ok());
  EXPECT_THAT(Payloads(OfferAll(*spool)), ElementsAre("c", "b", "a"));
  const auto after = OpenAt(Crash());
  EXPECT_THAT(Payloads(OfferAll(*after)), ElementsAre("c", "b", "a"));
  EXPECT_EQ(after->stats().lost_records, 0u);
}

TEST_F(SpoolTest, ATornTailIsCutAndIsNoLoss) {
  const auto spool = OpenSpool();
  ASSERT_TRUE(spool->Append({"a", "b"}).ok());
  const std::string copy = Crash();
  std::string record;
  AppendRecord(3, "never acknowledged to the caller", &record);
  std::ofstream(SegmentFiles(copy)[0], std::ios::app) << record.substr(0, record.size() - 5);
  const auto after = OpenAt(copy);
  EXPECT_THAT(Payloads(OfferAll(*after)), ElementsAre("b", "a"));
  EXPECT_EQ(after->stats().lost_records, 0u);
}

TEST_F(SpoolTest, DamageUnderAnOpenSpoolIsCountedNotSent) {
  const auto spool = OpenSpool();
  ASSERT_TRUE(spool->Append({"aaaa", "bbbb"}).ok());
  std::string content = *ReadFile(SegmentFiles(folder_)[0]);
  content[content.find("aaaa")] = 'z';
  std::ofstream(SegmentFiles(folder_)[0]) << content;
  EXPECT_THAT(Payloads(OfferAll(*spool)), ElementsAre("bbbb"));
  EXPECT_EQ(spool->stats().lost_records, 1u);
}

TEST_F(SpoolTest, AnEmptyAndAReadOnlySegmentDoNotStopTheStart) {
  {
    const auto spool = OpenSpool();
    ASSERT_TRUE(spool->Append({"a", "b"}).ok());
    std::ofstream(absl::StrCat(folder_, "/", FormatSegmentName({spool->epoch(), 900})));
  }
  for (const fs::path& segment : SegmentFiles(folder_)) fs::permissions(segment, fs::perms::owner_read);
  const auto spool = OpenSpool();
  EXPECT_THAT(Payloads(OfferAll(*spool)), ElementsAre("b", "a"));
  ASSERT_TRUE(spool->AppendOne("c").ok());
  EXPECT_THAT(Payloads(OfferAll(*spool)), ElementsAre("c"));
}

TEST_F(SpoolTest, AFolderInPlaceOfASegmentDoesNotStopTheStart) {
  {
    const auto spool = OpenSpool();
    ASSERT_TRUE(spool->AppendOne("a").ok());
    fs::create_directory(absl::StrCat(folder_, "/", FormatSegmentName({spool->epoch(), 900})));
  }
  const auto spool = OpenSpool();
  EXPECT_THAT(Payloads(OfferAll(*spool)), ElementsAre("a"));
}

enum class Damage { kCut, kZero, kFlip };

void Apply(Damage damage, size_t offset, const fs::path& path) {
  std::string content = *ReadFile(path.string());
  if (damage == Damage::kCut) content.resize(offset);
  for (size_t i = offset; damage == Damage::kZero && i < std::min(content.size(), offset + 512); ++i)
    content[i] = '\0';
  if (damage == Damage::kFlip) content[offset] = static_cast<char>(content[offset] ^ 0x40);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

class DamagedSpoolTest : public SpoolTest, public ::testing::WithParamInterface<Damage> {
 protected:
  static constexpr uint64_t kRecords = 60;

  DamagedSpoolTest() {
    const auto spool = OpenSpool();
    for (uint64_t i = 1; i <= kRecords; ++i) EXPECT_EQ(*spool->AppendOne(PayloadOf(i)), i);
    spool->Ack(spool->epoch(), {10, 20});
  }

  void ExpectWholeOrCounted(const std::string& copy) {
    uint64_t lost = 0;
    {
      const auto spool = OpenAt(copy);
      const std::vector<SpooledRecord> records = OfferAll(*spool);
      for (const SpooledRecord& record : records) EXPECT_EQ(record.payload, PayloadOf(record.sequence));
      lost = spool->stats().lost_records;
      EXPECT_EQ(records.size() + lost, kRecords - 2);
      EXPECT_GT(*spool->AppendOne("later"), kRecords);
    }
    const auto spool = OpenAt(copy);
    EXPECT_EQ(spool->stats().lost_records, lost) << "counted twice";
    EXPECT_EQ(OfferAll(*spool).size() + lost, kRecords - 2 + 1);
  }
};

TEST_P(DamagedSpoolTest, AtEveryOffsetGoodRecordsAreKeptAndTheOthersCountedOnce) {
  const size_t size = fs::file_size(SegmentFiles(folder_)[0]);
  ASSERT_GT(size, 4096u);
  for (size_t offset = 0; offset < size; offset += 512) {
    SCOPED_TRACE(absl::StrCat("offset ", offset));
    const std::string copy = Crash();
    Apply(GetParam(), offset, SegmentFiles(copy)[0]);
    ExpectWholeOrCounted(copy);
    fs::remove_all(copy);
  }
}

TEST_P(DamagedSpoolTest, ADamagedStateFileNeverStopsTheStartNorRepeatsASequenceOfItsEpoch) {
  const std::string epoch = OpenSpool()->epoch();
  const size_t size = fs::file_size(folder_ + "/state");
  for (size_t offset = 0; offset < size; ++offset) {
    SCOPED_TRACE(absl::StrCat("offset ", offset));
    const std::string copy = Crash();
    Apply(GetParam(), offset, copy + "/state");
    const auto spool = OpenAt(copy);
    EXPECT_THAT(OfferAll(*spool), SizeIs(kRecords - 2));
    const uint64_t next = *spool->AppendOne("later");
    EXPECT_TRUE(spool->epoch() != epoch || next > kRecords);
    fs::remove_all(copy);
  }
}

TEST_P(DamagedSpoolTest, ADamagedAckFileOnlySendsAgain) {
  const fs::path ack = SegmentFiles(folder_)[0].string() + ".ack";
  for (size_t offset = 0; offset < fs::file_size(ack); ++offset) {
    const std::string copy = Crash();
    Apply(GetParam(), offset, copy + "/" + ack.filename().string());
    const auto spool = OpenAt(copy);
    EXPECT_GE(OfferAll(*spool).size(), kRecords - 2);
    EXPECT_EQ(spool->stats().lost_records, 0u);
    fs::remove_all(copy);
  }
}

INSTANTIATE_TEST_SUITE_P(All, DamagedSpoolTest,
                         ::testing::Values(Damage::kCut, Damage::kZero, Damage::kFlip));

// What is logged while it lives.
class Logged {
 public:
  Logged() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(out_)));
  }
  ~Logged() { spdlog::set_default_logger(before_); }
  std::string text() const { return out_.str(); }

 private:
  std::ostringstream out_;
  const std::shared_ptr<spdlog::logger> before_;
};

TEST_F(SpoolTest, ADamagedSegmentIsToldAndCounted) {
  const auto spool = OpenSpool();
  ASSERT_TRUE(spool->Append({"first", "second", "third"}).ok());
  const std::string copy = Crash();
  const Logged quiet;
  EXPECT_EQ(OpenAt(copy)->stats().damaged_files, 0u);
  EXPECT_EQ(quiet.text(), "");
  Apply(Damage::kFlip, ReadFile(SegmentFiles(copy)[0].string())->find("second"), SegmentFiles(copy)[0]);
  const Logged logged;
  const auto after = OpenAt(copy);
  EXPECT_THAT(logged.text(), AllOf(HasSubstr("warning"), HasSubstr("is damaged: 2 records are good, 1 are"),
                                   HasSubstr("kept as " + copy + "/damaged/")));
  EXPECT_EQ(after->stats().damaged_files, 1u);
  EXPECT_EQ(after->stats().lost_records, 1u);
}

TEST_F(SpoolTest, ADamagedStateIsToldAndCountedAndSoIsDamageInTheSegmentsItLeaves) {
  {
    const auto spool = OpenSpool();
    ASSERT_TRUE(spool->Append({"first", "second", "third"}).ok());
  }
  Apply(Damage::kFlip, 8, folder_ + "/state");
  Apply(Damage::kFlip, ReadFile(SegmentFiles(folder_)[0].string())->find("second"), SegmentFiles(folder_)[0]);
  const Logged logged;
  const auto spool = OpenSpool();
  EXPECT_THAT(Payloads(OfferAll(*spool)), ElementsAre("third", "first"));
  EXPECT_THAT(logged.text(), AllOf(HasSubstr("/state is damaged; going on as epoch " + spool->epoch()),
                                   HasSubstr("2 records are good, at least 1 are lost; kept as")));
  EXPECT_EQ(spool->stats().damaged_files, 2u);
  EXPECT_EQ(spool->stats().lost_records, 1u);
}

TEST_F(SpoolTest, ThreadsAppendAndDrainAtTheSameTime) {
  const auto spool = OpenSpool();
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&spool, t] {
      for (int i = 0; i < 50; ++i) EXPECT_TRUE(spool->AppendOne(absl::StrCat(t, ":", i)).ok());
    });
  }
  std::map<uint64_t, std::string> seen;
  while (seen.size() < 150) {
    for (const SpooledRecord& record : spool->Offer(7, 1 << 20)) {
      EXPECT_TRUE(seen.emplace(record.sequence, record.payload).second);
      spool->Ack(spool->epoch(), {record.sequence});
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(spool->stats().records, 0u);
}

}  // namespace
}  // namespace weft
