#include "agent/spool/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include <sys/file.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/id.h"
#include "spdlog/spdlog.h"

namespace weft {
namespace {

constexpr uint64_t kReservation = 1024;        // sequences per write of `state`
constexpr uint64_t kKeepOpenBelow = 64 << 10;  // an empty but open segment below this size is kept
constexpr size_t kMaxGaps = 16;
constexpr size_t kMaxSetAside = 8;
constexpr uint64_t kMaxRejectedFileBytes = 1 << 20;
constexpr uint64_t kMaxReadableSegment = 256ull << 20;
// A jump beyond this within one segment is no count of records.
constexpr uint64_t kMaxCountedGap = 1 << 20;

std::string AckPath(const std::string& segment_path) { return segment_path + ".ack"; }

bool WriteFully(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(wrote));
  }
  return true;
}

// Without fsync: what is lost with the machine is only sent again.
bool AppendToFile(const std::string& path, absl::string_view bytes) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const bool done = WriteFully(fd, bytes);
  close(fd);
  return done;
}

uint64_t FileBytes(const std::string& path) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  return error ? 0 : size;
}

absl::StatusOr<std::string> ReadSegment(const std::string& path) {
  if (FileBytes(path) > kMaxReadableSegment) return absl::DataLossError(absl::StrCat(path, " is too long"));
  return ReadFile(path);
}

absl::Status Unavailable(absl::string_view what, const std::string& path) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, " ", path, ": ",
                                             std::error_code(errno, std::generic_category()).message(),
                                             "; free space or repair the disk"));
}

SpoolOptions WithDefaults(SpoolOptions options) {
  options.max_bytes = std::max<uint64_t>(options.max_bytes, 1 << 20);
  if (options.segment_bytes == 0)
    options.segment_bytes = std::clamp<uint64_t>(options.max_bytes / 32, 64 << 10, 2 << 20);
  return options;
}

std::map<std::string, std::vector<std::string>> ParseLines(absl::string_view text) {
  std::map<std::string, std::vector<std::string>> out;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> kv = absl::StrSplit(line, absl::MaxSplits('=', 1));
    out[kv.first].push_back(kv.second);
  }
  return out;
}

uint64_t NumberOf(const std::vector<std::string>& values) {
  uint64_t out = 0;
  return !values.empty() && absl::SimpleAtoi(values[0], &out) ? out : 0;
}

// Sequences from `first` on that no entry has, up to the last one, and that were never judged.
uint64_t CountHoles(uint64_t first, const std::vector<SegmentEntry>& entries,
                    const std::set<uint64_t>& gone) {
  uint64_t holes = 0;
  for (const SegmentEntry& entry : entries) {
    const bool countable = entry.sequence >= first && entry.sequence - first <= kMaxCountedGap;
    for (uint64_t sequence = first; countable && sequence < entry.sequence; ++sequence)
      holes += gone.count(sequence) == 0 ? 1 : 0;
    first = entry.sequence + 1;
  }
  return holes;
}

std::vector<uint64_t> NumbersOf(const std::string& text) {
  std::vector<uint64_t> out;
  for (const absl::string_view part : absl::StrSplit(text, ' ')) {
    out.push_back(0);
    if (!absl::SimpleAtoi(part, &out.back())) return {};
  }
  return out;
}

}  // namespace

Spool::Fd::~Fd() { close(number); }

Spool::Spool(const SpoolOptions& options, std::unique_ptr<Fd> lock)
    : options_(WithDefaults(options)), lock_(std::move(lock)) {}

absl::StatusOr<std::unique_ptr<Spool>> Spool::Open(const SpoolOptions& options) {
  const absl::Status made = MakeFolders(options.folder);
  if (!made.ok()) return made;
  const std::string path = options.folder + "/lock";
  const int number = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (number < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  auto lock = std::make_unique<Fd>(number);
  if (flock(number, LOCK_EX | LOCK_NB) != 0)
    return absl::FailedPreconditionError(absl::StrCat(
        "spool folder ", options.folder, " is in use by another agent; stop it or use another state_dir"));
  std::unique_ptr<Spool> spool(new Spool(options, std::move(lock)));
  spool->Load();
  return spool;
}

Spool::~Spool() {
  MutexLock lock(mutex_);
  Seal();
  EraseFinished();
  if (clean_) return;
  clean_ = true;
  reserved_ = next_;
  // On failure the reservation on disk stands, and the next start skips some sequences.
  SaveState().IgnoreError();
}

// ---- Start.

void Spool::Load() {
  MutexLock lock(mutex_);
  const absl::Status state = LoadState();
  if (!state.ok()) epoch_ = RandomHex(16);
  std::vector<SegmentName> foreign;
  for (const SegmentName& name : ListSegments()) {
    if (name.epoch == epoch_)
      LoadSegment(name);
    else
      foreign.push_back(name);
  }
  next_ = std::max(next_, reserved_);
  if (!segments_.empty() && !segments_.back().records.empty())
    next_ = std::max(next_, segments_.back().records.back().entry.sequence + 1);
  if (!state.ok() && (absl::IsDataLoss(state) || !foreign.empty())) {
    ++counters_.damaged_files;
    spdlog::warn(
        "spool: {}; going on as epoch {} with the records of {} segments. What was counted before is "
        "forgotten",
        std::string(state.message()), epoch_, foreign.size());
  }
  for (const SegmentName& name : foreign) Adopt(name);
  EraseFinished();
}

absl::Status Spool::LoadState() {
  const std::string path = options_.folder + "/state";
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return absl::NotFoundError(absl::StrCat(path, " is missing"));
  const absl::Status damaged = absl::DataLossError(absl::StrCat(path, " is damaged"));
  if (!text.ok()) return damaged;
  const size_t at = text->rfind("crc=");
  uint32_t crc = 0;
  if (at == std::string::npos) return damaged;
  std::map<std::string, std::vector<std::string>> lines = ParseLines(text->substr(at));
  if (lines["crc"].empty() || !absl::SimpleHexAtoi(lines["crc"][0], &crc)) return damaged;
  if (crc != Crc32c(absl::string_view(*text).substr(0, at))) return damaged;
  lines = ParseLines(text->substr(0, at));
  if (lines["epoch"].empty() || lines["epoch"][0].empty()) return damaged;
  epoch_ = lines["epoch"][0];
  clean_ = NumberOf(lines["clean"]) == 1;
  reserved_ = std::max<uint64_t>(1, NumberOf(lines["reserved"]));
  counters_.lost_records = NumberOf(lines["lost"]);
  counters_.rejected_records = NumberOf(lines["rejected"]);
  counters_.damaged_files = NumberOf(lines["damaged"]);
  for (const std::string& line : lines["gap"]) {
    const std::vector<uint64_t> n = NumbersOf(line);
    if (n.size() == 3) counters_.gaps.push_back({n[0], n[1], n[2]});
  }
  for (const std::string& line : lines["segment"]) {
    const std::vector<uint64_t> n = NumbersOf(line);
    if (n.size() == 2) ends_[n[0]] = n[1];
  }
  return absl::OkStatus();
}

absl::Status Spool::SaveState() {
  std::string text =
      absl::StrFormat("epoch=%s\nclean=%d\nreserved=%d\nlost=%d\nrejected=%d\ndamaged=%d\n", epoch_, clean_,
                      reserved_, counters_.lost_records, counters_.rejected_records, counters_.damaged_files);
  for (const SpoolGap& gap : counters_.gaps)
    absl::StrAppendFormat(&text, "gap=%d %d %d\n", gap.first, gap.last, gap.lost);
  for (const auto& [first, end] : ends_) absl::StrAppendFormat(&text, "segment=%d %d\n", first, end);
  absl::StrAppendFormat(&text, "crc=%08x\n", Crc32c(text));
  return WriteFileDurably(options_.folder + "/state", text);
}

std::vector<SegmentName> Spool::ListSegments() const {
  std::vector<SegmentName> out;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(options_.folder, error)) {
    SegmentName name;
    if (ParseSegmentName(file.path().filename().string(), &name)) out.push_back(name);
    std::filesystem::path segment = file.path();
    // Left by a crash between the two removals of a finished segment.
    if (segment.extension() == ".ack" && !std::filesystem::exists(segment.replace_extension(), error))
      unlink(file.path().c_str());
  }
  std::sort(out.begin(), out.end(), [](const SegmentName& a, const SegmentName& b) {
    return std::tie(a.first_sequence, a.epoch) < std::tie(b.first_sequence, b.epoch);
  });
  return out;
}

void Spool::LoadSegment(const SegmentName& name) {
  const std::string path = absl::StrCat(options_.folder, "/", FormatSegmentName(name));
  const absl::StatusOr<std::string> content = ReadSegment(path);
  const SegmentScan scan = content.ok() ? ScanSegment(*content) : SegmentScan{};
  const std::set<uint64_t> gone = ScanGone(ReadFile(AckPath(path)).value_or(""));
  const std::vector<uint64_t> missing = CountMissing(name, scan.entries, gone);
  if (!scan.entries.empty()) ends_.try_emplace(name.first_sequence, scan.entries.back().sequence + 1);
  const bool damaged = !content.ok() || scan.damaged_inside || scan.good_end != content->size();

  segments_.push_back({path, name.first_sequence, {}, scan.good_end, 0, 0});
  Segment& segment = segments_.back();
  for (const SegmentEntry& entry : scan.entries) {
    if (gone.count(entry.sequence) > 0) continue;
    segment.records.push_back({entry, RecordState::kWaiting});
    ++segment.waiting;
    ++segment.remaining;
  }
  bytes_ += segment.bytes;
  if (!damaged && missing.empty()) return;
  if (damaged && !SetAside(path, content.ok() ? *content : "", scan, missing.size()))
    spdlog::error("spool: the damaged segment {} cannot be replaced; the next start tries again", path);
  if (!damaged)
    spdlog::warn("spool: segment {} lacks {} records that were written to it; they are lost", path,
                 missing.size());
  std::string entries;
  for (const uint64_t sequence : missing) AppendGone(sequence, &entries);
  AppendToFile(AckPath(path), entries);
  SaveState().IgnoreError();
}

// Sequences that must once have been in the segment and were never judged: counts them as lost.
std::vector<uint64_t> Spool::CountMissing(const SegmentName& name, const std::vector<SegmentEntry>& entries,
                                          const std::set<uint64_t>& gone) {
  std::vector<uint64_t> missing;
  uint64_t expected = name.first_sequence;
  const auto skip_to = [&](uint64_t sequence) {
    if (sequence > expected && sequence - expected > kMaxCountedGap) expected = sequence;
    for (; expected < sequence; ++expected)
      if (gone.count(expected) == 0) missing.push_back(expected);
  };
  for (const SegmentEntry& entry : entries) {
    skip_to(entry.sequence);
    expected = entry.sequence + 1;
  }
  const auto end = ends_.find(name.first_sequence);
  if (end != ends_.end()) skip_to(end->second);
  if (!missing.empty()) AddLost(missing.front(), missing.back(), missing.size());
  return missing;
}

// Keeps the file as found in `damaged/` and leaves only whole records in its place. A torn tail after a crash
// is no more than cut. False when the disk would not have it; the next start tries again.
bool Spool::SetAside(const std::string& path, absl::string_view content, const SegmentScan& scan,
                     uint64_t lost) {
  const bool torn_tail = !scan.damaged_inside && !scan.entries.empty();
  if (torn_tail) {
    if (lost > 0) {
      ++counters_.damaged_files;
      spdlog::warn("spool: segment {} ends early; {} records are lost", path, lost);
    }
    return truncate(path.c_str(), static_cast<off_t>(scan.good_end)) == 0;
  }
  if (content.empty() && FileBytes(path) == 0 && lost == 0) return true;  // made, and never written to
  ++counters_.damaged_files;
  const std::string kept = KeepDamaged(path);
  spdlog::warn("spool: segment {} is damaged: {} records are good, {} are known to be lost; {}", path,
               scan.entries.size(), lost, kept);
  std::string good;
  for (Record& record : segments_.back().records) {
    SegmentEntry& entry = record.entry;
    const size_t start = good.size();
    AppendRecord(entry.sequence, content.substr(entry.offset, entry.length), &good);
    entry.offset = static_cast<uint32_t>(start + kSpoolRecordHeaderBytes);
  }
  bytes_ -= segments_.back().bytes;
  segments_.back().bytes = good.size();
  bytes_ += good.size();
  return WriteFileDurably(path, good).ok();
}

// Moves a file into `damaged/`, or removes it where enough are kept already. Says which.
std::string Spool::KeepDamaged(const std::string& path) {
  const std::string folder = options_.folder + "/damaged";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const auto kept = std::distance(std::filesystem::directory_iterator(folder, error), {});
  const std::string aside = absl::StrCat(folder, "/", std::filesystem::path(path).filename().string());
  if (static_cast<size_t>(kept) >= kMaxSetAside) {
    std::filesystem::remove(path, error);
    return absl::StrCat("removed, for ", folder, " holds ", kMaxSetAside, " already");
  }
  std::filesystem::rename(path, aside, error);
  return error ? absl::StrCat("it could not be kept: ", error.message()) : absl::StrCat("kept as ", aside);
}

// Segments of an epoch whose `state` is lost: their records go into this epoch, under new sequences.
void Spool::Adopt(const SegmentName& name) {
  const std::string path = absl::StrCat(options_.folder, "/", FormatSegmentName(name));
  const absl::StatusOr<std::string> content = ReadSegment(path);
  const std::set<uint64_t> gone = ScanGone(ReadFile(AckPath(path)).value_or(""));
  const SegmentScan scan = content.ok() ? ScanSegment(*content) : SegmentScan{};
  std::vector<std::string> payloads;
  for (const SegmentEntry& entry : scan.entries)
    if (gone.count(entry.sequence) == 0) payloads.push_back(content->substr(entry.offset, entry.length));
  // With a full disk the segment stays for the next start.
  if (!payloads.empty() && !AppendLocked(payloads).ok()) return;
  const bool unreadable = scan.entries.empty() && (!content.ok() || !content->empty());
  if (unreadable || scan.damaged_inside) {
    // Without `state` nobody knows how far the segment went: only holes between good records can be counted.
    const uint64_t lost = CountHoles(name.first_sequence, scan.entries, gone);
    counters_.lost_records += lost;
    ++counters_.damaged_files;
    const std::string kept = KeepDamaged(path);
    spdlog::warn("spool: segment {} is damaged: {} records are good, at least {} are lost; {}", path,
                 scan.entries.size(), lost, kept);
    SaveState().IgnoreError();
  }
  unlink(path.c_str());
  unlink(AckPath(path).c_str());
}

// ---- Appending.

absl::StatusOr<uint64_t> Spool::Append(absl::Span<const std::string> payloads) {
  uint64_t total = 0;
  for (const std::string& payload : payloads) {
    total += payload.size();
    if (payload.size() > kMaxSpoolRecordBytes)
      return absl::InvalidArgumentError(
          absl::StrCat("a record of ", payload.size(), " bytes exceeds the limit of ", kMaxSpoolRecordBytes));
  }
  if (total > options_.max_bytes / 2)
    return absl::InvalidArgumentError(
        absl::StrCat("an append of ", total, " bytes exceeds half of the spool"));
  MutexLock lock(mutex_);
  if (payloads.empty()) return next_;
  return AppendLocked(payloads);
}

absl::StatusOr<uint64_t> Spool::AppendLocked(absl::Span<const std::string> payloads) {
  const absl::Status reserved = Reserve(payloads.size());
  if (!reserved.ok()) return reserved;
  std::string bytes;
  for (size_t i = 0; i < payloads.size(); ++i) AppendRecord(next_ + i, payloads[i], &bytes);
  MakeRoom(bytes.size());
  if (!segments_.empty() && segments_.back().bytes >= options_.segment_bytes) Seal();
  if (open_segment_ == nullptr) {
    const absl::Status opened = OpenSegment();
    if (!opened.ok()) return opened;
  }
  const uint64_t first = next_;
  next_ += payloads.size();  // also when the write fails: some of it may be on the disk
  const absl::Status written = WriteToSegment(bytes);
  if (!written.ok()) return written;

  Segment& segment = segments_.back();
  size_t offset = segment.bytes;
  for (size_t i = 0; i < payloads.size(); ++i) {
    offset += kSpoolRecordHeaderBytes;
    segment.records.push_back(
        {{first + i, static_cast<uint32_t>(offset), static_cast<uint32_t>(payloads[i].size())},
         RecordState::kWaiting});
    offset += payloads[i].size();
  }
  segment.bytes += bytes.size();
  bytes_ += bytes.size();
  segment.waiting += payloads.size();
  segment.remaining += payloads.size();
  return first;
}

// After a crash the last segment's end is unknown, so numbering goes on behind everything that was reserved.
absl::Status Spool::Reserve(uint64_t count) {
  if (!clean_ && next_ + count <= reserved_) return absl::OkStatus();
  const bool was_clean = std::exchange(clean_, false);
  const uint64_t before = std::exchange(reserved_, next_ + count + kReservation);
  const absl::Status saved = SaveState();
  if (saved.ok()) return saved;
  clean_ = was_clean;
  reserved_ = before;
  return absl::UnavailableError(absl::StrCat(saved.message(), "; free space or repair the disk"));
}

absl::Status Spool::OpenSegment() {
  const std::string path = absl::StrCat(options_.folder, "/", FormatSegmentName({epoch_, next_}));
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return Unavailable("make", path);
  auto segment = std::make_unique<Fd>(fd);
  const absl::Status synced = SyncFolder(options_.folder);
  if (!synced.ok()) {
    unlink(path.c_str());
    return absl::UnavailableError(synced.message());
  }
  open_segment_ = std::move(segment);
  segments_.push_back({path, next_, {}, 0, 0, 0});
  return absl::OkStatus();
}

absl::Status Spool::WriteToSegment(absl::string_view bytes) {
  Segment& segment = segments_.back();
  if (WriteFully(open_segment_->number, bytes) && fsync(open_segment_->number) == 0) return absl::OkStatus();
  const absl::Status failed = Unavailable("write to", segment.path);
  // What is behind the last good record must not stay: the caller will append the same again. After a failed
  // fsync the kernel may have forgotten pages, so nothing more goes into this file.
  if (ftruncate(open_segment_->number, static_cast<off_t>(segment.bytes)) != 0) errno = 0;
  open_segment_ = nullptr;
  if (segment.records.empty()) Erase(std::prev(segments_.end()));
  return failed;
}

// No more goes into the open segment; its end is known from now on.
void Spool::Seal() {
  if (open_segment_ == nullptr) return;
  open_segment_ = nullptr;
  const Segment& segment = segments_.back();
  if (segment.records.empty()) return;
  ends_[segment.first_sequence] = segment.records.back().entry.sequence + 1;
  if (!clean_) SaveState().IgnoreError();
}

void Spool::MakeRoom(uint64_t bytes) {
  bool dropped = false;
  while (!segments_.empty() && bytes_ + bytes > options_.max_bytes) {
    const auto oldest = segments_.begin();
    if (segments_.size() == 1) Seal();
    uint64_t first = 0;
    uint64_t last = 0;
    for (const Record& record : oldest->records) {
      if (record.state == RecordState::kGone) continue;
      if (first == 0) first = record.entry.sequence;
      last = record.entry.sequence;
    }
    if (oldest->remaining > 0) AddLost(first, last, oldest->remaining);
    Erase(oldest);
    dropped = true;
  }
  if (dropped) SaveState().IgnoreError();
}

// ---- Sending.

std::vector<SpooledRecord> Spool::Offer(size_t max_records, size_t max_bytes) {
  MutexLock lock(mutex_);
  std::vector<SpooledRecord> out;
  size_t used = 0;
  for (auto it = segments_.rbegin(); it != segments_.rend(); ++it) {
    if (it->waiting > 0 && !OfferFrom(*it, max_records, max_bytes, &used, &out)) break;
  }
  EraseFinished();
  return out;
}

// False when the batch is full.
bool Spool::OfferFrom(Segment& segment, size_t max_records, size_t max_bytes, size_t* used,
                      std::vector<SpooledRecord>* out) {
  const int number = open(segment.path.c_str(), O_RDONLY | O_CLOEXEC);
  const std::unique_ptr<Fd> fd = number < 0 ? nullptr : std::make_unique<Fd>(number);
  std::vector<uint64_t> lost;
  bool full = false;
  for (auto it = segment.records.rbegin(); it != segment.records.rend() && segment.waiting > 0; ++it) {
    if (it->state != RecordState::kWaiting) continue;
    full = out->size() >= max_records || (!out->empty() && *used + it->entry.length > max_bytes);
    if (full) break;
    absl::StatusOr<std::string> payload =
        fd == nullptr ? absl::DataLossError("segment is gone") : ReadRecord(fd->number, it->entry);
    if (!payload.ok()) {
      lost.push_back(it->entry.sequence);
      AddLost(it->entry.sequence, it->entry.sequence, 1);
      it->state = RecordState::kGone;
      --segment.waiting;
      --segment.remaining;
      continue;
    }
    it->state = RecordState::kOffered;
    --segment.waiting;
    *used += it->entry.length;
    out->push_back({it->entry.sequence, *std::move(payload)});
  }
  if (!lost.empty()) {
    std::string entries;
    for (const uint64_t sequence : lost) AppendGone(sequence, &entries);
    AppendToFile(AckPath(segment.path), entries);
    SaveState().IgnoreError();
  }
  return !full;
}

void Spool::Ack(absl::string_view epoch, absl::Span<const uint64_t> sequences) {
  MutexLock lock(mutex_);
  if (epoch != epoch_) return;
  MarkGone(sequences);
  EraseFinished();
}

void Spool::Reject(absl::string_view epoch, absl::Span<const SpoolRejection> rejections) {
  MutexLock lock(mutex_);
  if (epoch != epoch_) return;
  std::vector<uint64_t> sequences;
  for (const SpoolRejection& rejection : rejections) {
    Segments::iterator segment;
    if (Find(rejection.sequence, &segment) == nullptr) continue;
    KeepRejected(rejection);
    ++counters_.rejected_records;
    sequences.push_back(rejection.sequence);
  }
  if (sequences.empty()) return;
  MarkGone(sequences);
  EraseFinished();
  SaveState().IgnoreError();
}

void Spool::ReturnOffered() {
  MutexLock lock(mutex_);
  for (Segment& segment : segments_) {
    for (Record& record : segment.records) {
      if (record.state != RecordState::kOffered) continue;
      record.state = RecordState::kWaiting;
      ++segment.waiting;
    }
  }
}

uint64_t Spool::waiting() const {
  MutexLock lock(mutex_);
  uint64_t out = 0;
  for (const Segment& segment : segments_) out += segment.waiting;
  return out;
}

SpoolStats Spool::stats() const {
  MutexLock lock(mutex_);
  SpoolStats out = counters_;
  for (const Segment& segment : segments_) out.records += segment.remaining;
  out.bytes = bytes_;
  return out;
}

// ---- Judged records.

Spool::Record* Spool::Find(uint64_t sequence, Segments::iterator* segment) {
  for (*segment = segments_.begin(); *segment != segments_.end(); ++*segment) {
    std::vector<Record>& records = (*segment)->records;
    const auto it = std::lower_bound(records.begin(), records.end(), sequence,
                                     [](const Record& r, uint64_t s) { return r.entry.sequence < s; });
    if (it != records.end() && it->entry.sequence == sequence && it->state != RecordState::kGone) return &*it;
  }
  return nullptr;
}

void Spool::MarkGone(absl::Span<const uint64_t> sequences) {
  std::map<std::string, std::string> entries;
  for (const uint64_t sequence : sequences) {
    Segments::iterator segment;
    Record* const record = Find(sequence, &segment);
    if (record == nullptr) continue;
    if (record->state == RecordState::kWaiting) --segment->waiting;
    --segment->remaining;
    record->state = RecordState::kGone;
    AppendGone(sequence, &entries[segment->path]);
  }
  // Failure is harmless: the records come again after a restart, and the server knows them.
  for (const auto& [path, bytes] : entries) AppendToFile(AckPath(path), bytes);
}

void Spool::EraseFinished() {
  for (auto it = segments_.begin(); it != segments_.end();) {
    const auto segment = it++;
    const bool is_open = open_segment_ != nullptr && it == segments_.end();
    if (segment->remaining > 0 || (is_open && segment->bytes < kKeepOpenBelow)) continue;
    if (is_open) Seal();
    Erase(segment);
  }
}

void Spool::Erase(Segments::iterator segment) {
  // The records first: an ack file without its records is harmless, the reverse would send them again.
  unlink(segment->path.c_str());
  unlink(AckPath(segment->path).c_str());
  ends_.erase(segment->first_sequence);
  bytes_ -= segment->bytes;
  segments_.erase(segment);
}

void Spool::AddLost(uint64_t first, uint64_t last, uint64_t lost) {
  counters_.lost_records += lost;
  std::vector<SpoolGap>& gaps = counters_.gaps;
  if (!gaps.empty() && gaps.back().last + 1 == first) {
    gaps.back().last = last;
    gaps.back().lost += lost;
    return;
  }
  gaps.push_back({first, last, lost});
  if (gaps.size() > kMaxGaps) gaps.erase(gaps.begin());
}

// Best effort: the file is for people who want to know what the server refused.
void Spool::KeepRejected(const SpoolRejection& rejection) {
  Segments::iterator segment;
  const Record* const record = Find(rejection.sequence, &segment);
  const int number = open(segment->path.c_str(), O_RDONLY | O_CLOEXEC);
  if (number < 0) return;
  const Fd fd(number);
  const absl::StatusOr<std::string> payload = ReadRecord(fd.number, record->entry);
  if (!payload.ok()) return;
  const std::string path = options_.folder + "/rejected";
  std::string bytes;
  AppendRecord(rejection.sequence,
               absl::string_view(absl::StrCat(rejection.reason.substr(0, 512), "\n", *payload))
                   .substr(0, kMaxSpoolRecordBytes),
               &bytes);
  if (FileBytes(path) + bytes.size() > kMaxRejectedFileBytes) rename(path.c_str(), (path + ".old").c_str());
  AppendToFile(path, bytes);
}

}  // namespace weft
