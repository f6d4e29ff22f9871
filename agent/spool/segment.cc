#include "agent/spool/segment.h"

#include <errno.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/crc32c.h"

namespace weft {
namespace {

constexpr absl::string_view kMagic("\xA7WR1", 4);
constexpr absl::string_view kSuffix = ".seg";

void AppendLittleEndian(uint64_t value, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>((value >> (8 * i)) & 0xff));
}

uint64_t LittleEndian(absl::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i) value = (value << 8) | static_cast<unsigned char>(bytes[i - 1]);
  return value;
}

// `record` is the header and the payload.
bool IsIntact(absl::string_view record) {
  return Crc32c(record.substr(12)) == static_cast<uint32_t>(LittleEndian(record.substr(8, 4)));
}

// True if a good record starts at `offset`.
bool RecordAt(absl::string_view content, size_t offset, SegmentEntry* entry) {
  if (content.size() - offset < kSpoolRecordHeaderBytes) return false;
  const absl::string_view header = content.substr(offset, kSpoolRecordHeaderBytes);
  if (header.substr(0, 4) != kMagic) return false;
  const uint64_t length = LittleEndian(header.substr(4, 4));
  if (length > kMaxSpoolRecordBytes) return false;
  if (content.size() - offset - kSpoolRecordHeaderBytes < length) return false;
  if (!IsIntact(content.substr(offset, kSpoolRecordHeaderBytes + length))) return false;
  entry->sequence = LittleEndian(header.substr(12, 8));
  entry->offset = static_cast<uint32_t>(offset + kSpoolRecordHeaderBytes);
  entry->length = static_cast<uint32_t>(length);
  return true;
}

bool PreadFully(int fd, off_t offset, std::string* out) {
  size_t done = 0;
  while (done < out->size()) {
    const ssize_t got = pread(fd, out->data() + done, out->size() - done, offset + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = EIO;
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

void AppendRecord(uint64_t sequence, absl::string_view payload, std::string* out) {
  std::string checked;
  checked.reserve(8 + payload.size());
  AppendLittleEndian(sequence, 8, &checked);
  checked.append(payload.data(), payload.size());
  absl::StrAppend(out, kMagic);
  AppendLittleEndian(payload.size(), 4, out);
  AppendLittleEndian(Crc32c(checked), 4, out);
  out->append(checked);
}

SegmentScan ScanSegment(absl::string_view content) {
  SegmentScan scan;
  size_t offset = 0;
  while (offset < content.size()) {
    SegmentEntry entry;
    const bool rising = RecordAt(content, offset, &entry) &&
                        (scan.entries.empty() || entry.sequence > scan.entries.back().sequence);
    if (rising) {
      scan.damaged_inside |= offset != scan.good_end;
      scan.entries.push_back(entry);
      offset = scan.good_end = entry.offset + entry.length;
      continue;
    }
    // Lengths cannot be trusted here: look for the next thing that starts like a record.
    offset = content.find(kMagic, offset + 1);
  }
  return scan;
}

absl::StatusOr<std::string> ReadRecord(int fd, const SegmentEntry& entry) {
  std::string record(kSpoolRecordHeaderBytes + entry.length, '\0');
  if (!PreadFully(fd, entry.offset - kSpoolRecordHeaderBytes, &record))
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read spool record ", entry.sequence));
  SegmentEntry found;
  if (!RecordAt(record, 0, &found) || found.sequence != entry.sequence)
    return absl::DataLossError(absl::StrCat("spool record ", entry.sequence, " was damaged on disk"));
  return record.substr(kSpoolRecordHeaderBytes);
}

void AppendGone(uint64_t sequence, std::string* out) {
  std::string entry;
  AppendLittleEndian(sequence, 8, &entry);
  AppendLittleEndian(Crc32c(entry), 4, &entry);
  out->append(entry);
}

std::set<uint64_t> ScanGone(absl::string_view content) {
  std::set<uint64_t> gone;
  while (content.size() >= 12) {
    const absl::string_view sequence = content.substr(0, 8);
    const bool good = Crc32c(sequence) == static_cast<uint32_t>(LittleEndian(content.substr(8, 4)));
    if (good) gone.insert(LittleEndian(sequence));
    content.remove_prefix(good ? 12 : 1);
  }
  return gone;
}

std::string FormatSegmentName(const SegmentName& name) {
  return absl::StrFormat("%s-%016x%s", name.epoch, name.first_sequence, kSuffix);
}

bool ParseSegmentName(absl::string_view file, SegmentName* name) {
  if (!absl::ConsumeSuffix(&file, kSuffix)) return false;
  const std::vector<absl::string_view> parts = absl::StrSplit(file, '-');
  if (parts.size() != 2 || parts[0].empty()) return false;
  name->epoch = std::string(parts[0]);
  return absl::SimpleHexAtoi(parts[1], &name->first_sequence);
}

}  // namespace weft
