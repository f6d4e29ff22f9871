// A durable queue of result records: what was appended is offered for sending until the server has judged it,
// through restarts, kill -9 and damaged files. Payloads are opaque.
//
// Folder: `lock` (held while open), `state` (epoch, sequence reservation, counters), `<epoch>-<first>.seg`
// with an `.ack` beside each, `damaged/` (segments set aside as found, bounded), `rejected` (records that the
// server refused for good, bounded).
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "agent/spool/segment.h"
#include "base/mutex.h"

namespace weft {

struct SpoolOptions {
  std::string folder;                // made if missing
  uint64_t max_bytes = 64ull << 20;  // of all segments; at least 1 MiB; beyond it the oldest segment goes
  uint64_t segment_bytes = 0;        // a segment is full at this size; 0: 1/32 of max_bytes, at most 2 MiB
};

// A record as offered for sending.
struct SpooledRecord {
  uint64_t sequence = 0;
  std::string payload;
  bool operator==(const SpooledRecord&) const = default;
};

// Why the server refused a record, for the `rejected` file.
struct SpoolRejection {
  uint64_t sequence = 0;
  std::string reason;
};

// A range of sequences within which `lost` records will never be sent.
struct SpoolGap {
  uint64_t first = 0;
  uint64_t last = 0;  // included
  uint64_t lost = 0;
  bool operator==(const SpoolGap&) const = default;
};

struct SpoolStats {
  uint64_t records = 0;           // not yet judged by the server
  uint64_t bytes = 0;             // of all segments
  uint64_t lost_records = 0;      // since the epoch began: dropped at the limit, or damaged
  uint64_t rejected_records = 0;  // since the epoch began
  uint64_t damaged_files = 0;     // since the epoch began: segments, and the `state` of the epoch before
  std::vector<SpoolGap> gaps;     // where the lost ones were; the latest 16
};

// Thread-safe. Every call may block on the disk.
class Spool {
 public:
  // kFailedPrecondition when another process (or object) has the folder open; otherwise an errno's code when
  // the folder cannot be made or written. Damaged content is never an error: it is counted, set aside and
  // logged.
  static absl::StatusOr<std::unique_ptr<Spool>> Open(const SpoolOptions& options);
  // Closes cleanly; whatever is not acknowledged stays on disk.
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  // Random, new whenever sequences might otherwise repeat. Constant while open.
  const std::string& epoch() const { return epoch_; }

  // Appends all or nothing, with one fsync, and returns the first of their consecutive sequences.
  // kInvalidArgument when a payload exceeds kMaxSpoolRecordBytes; kUnavailable when the disk is full or
  // failing: earlier records are untouched and the call may be repeated.
  absl::StatusOr<uint64_t> Append(absl::Span<const std::string> payloads) WEFT_EXCLUDES(mutex_);
  absl::StatusOr<uint64_t> AppendOne(const std::string& payload) {
    return Append(absl::MakeSpan(&payload, 1));
  }

  // Up to `max_records` records of up to `max_bytes` in all (at least one record, if any), newest first, that
  // are not offered already. They count as offered until Ack, Reject or ReturnOffered.
  std::vector<SpooledRecord> Offer(size_t max_records, size_t max_bytes) WEFT_EXCLUDES(mutex_);
  // The server has these durably. Unknown sequences and other epochs are ignored.
  void Ack(absl::string_view epoch, absl::Span<const uint64_t> sequences) WEFT_EXCLUDES(mutex_);
  // The server will never take these: moved to the `rejected` file and counted.
  void Reject(absl::string_view epoch, absl::Span<const SpoolRejection> rejections) WEFT_EXCLUDES(mutex_);
  // Whatever is offered but not judged may be offered again: after a lost stream, or an ack that never came.
  void ReturnOffered() WEFT_EXCLUDES(mutex_);

  // Records that Offer would give out.
  uint64_t waiting() const WEFT_EXCLUDES(mutex_);
  SpoolStats stats() const WEFT_EXCLUDES(mutex_);

 private:
  enum class RecordState : uint8_t { kWaiting, kOffered, kGone };
  struct Record {
    SegmentEntry entry;
    RecordState state = RecordState::kWaiting;
  };
  struct Segment {
    std::string path;
    uint64_t first_sequence = 0;
    std::vector<Record> records;  // rising sequences
    uint64_t bytes = 0;
    uint64_t waiting = 0;
    uint64_t remaining = 0;  // not gone
  };
  struct Fd {
    explicit Fd(int n) : number(n) {}
    Fd(const Fd&) = delete;
    Fd& operator=(const Fd&) = delete;
    ~Fd();
    const int number;
  };
  using Segments = std::list<Segment>;  // oldest first

  Spool(const SpoolOptions& options, std::unique_ptr<Fd> lock);

  void Load() WEFT_EXCLUDES(mutex_);
  // kNotFound: there is none; kDataLoss: it cannot be used.
  absl::Status LoadState() WEFT_REQUIRES(mutex_);
  absl::Status SaveState() WEFT_REQUIRES(mutex_);
  std::vector<SegmentName> ListSegments() const;
  void LoadSegment(const SegmentName& name) WEFT_REQUIRES(mutex_);
  void Adopt(const SegmentName& name) WEFT_REQUIRES(mutex_);
  std::vector<uint64_t> CountMissing(const SegmentName& name, const std::vector<SegmentEntry>& entries,
                                     const std::set<uint64_t>& gone) WEFT_REQUIRES(mutex_);
  bool SetAside(const std::string& path, absl::string_view content, const SegmentScan& scan, uint64_t lost)
      WEFT_REQUIRES(mutex_);
  std::string KeepDamaged(const std::string& path) WEFT_REQUIRES(mutex_);

  absl::StatusOr<uint64_t> AppendLocked(absl::Span<const std::string> payloads) WEFT_REQUIRES(mutex_);
  absl::Status Reserve(uint64_t count) WEFT_REQUIRES(mutex_);
  absl::Status OpenSegment() WEFT_REQUIRES(mutex_);
  absl::Status WriteToSegment(absl::string_view bytes) WEFT_REQUIRES(mutex_);
  void MakeRoom(uint64_t bytes) WEFT_REQUIRES(mutex_);
  bool OfferFrom(Segment& segment, size_t max_records, size_t max_bytes, size_t* used,
                 std::vector<SpooledRecord>* out) WEFT_REQUIRES(mutex_);
  void Seal() WEFT_REQUIRES(mutex_);
  Record* Find(uint64_t sequence, Segments::iterator* segment) WEFT_REQUIRES(mutex_);
  void MarkGone(absl::Span<const uint64_t> sequences) WEFT_REQUIRES(mutex_);
  void EraseFinished() WEFT_REQUIRES(mutex_);
  void Erase(Segments::iterator segment) WEFT_REQUIRES(mutex_);
  void AddLost(uint64_t first, uint64_t last, uint64_t lost) WEFT_REQUIRES(mutex_);
  void KeepRejected(const SpoolRejection& rejection) WEFT_REQUIRES(mutex_);

  const SpoolOptions options_;
  const std::unique_ptr<Fd> lock_;
  std::string epoch_;

  mutable Mutex mutex_;
  Segments segments_ WEFT_GUARDED_BY(mutex_);
  std::unique_ptr<Fd> open_segment_
      WEFT_GUARDED_BY(mutex_);  // appends go to segments_.back(); null: to a new one
  uint64_t next_ WEFT_GUARDED_BY(mutex_) = 1;
  uint64_t reserved_ WEFT_GUARDED_BY(mutex_) = 1;  // sequences below this may be used without writing `state`
  bool clean_ WEFT_GUARDED_BY(mutex_) = true;      // nothing was appended since `state` was written
  // One past the last sequence of each sealed segment by its first one, so that a missing tail can be
  // counted.
  std::map<uint64_t, uint64_t> ends_ WEFT_GUARDED_BY(mutex_);
  uint64_t bytes_ WEFT_GUARDED_BY(mutex_) = 0;
  SpoolStats counters_ WEFT_GUARDED_BY(mutex_);  // only the counters and gaps
};

}  // namespace weft
