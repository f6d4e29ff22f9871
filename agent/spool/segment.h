// One segment file of the spool: how records lie in it, and how to read them back from a damaged one.
// A record is: magic, length, CRC-32C of sequence and payload, sequence, payload; all little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft {

// Greatest payload of one record; the server refuses longer ones too.
inline constexpr size_t kMaxSpoolRecordBytes = 256 << 10;
inline constexpr size_t kSpoolRecordHeaderBytes = 20;

// Where one record's payload lies.
struct SegmentEntry {
  uint64_t sequence = 0;
  uint32_t offset = 0;  // of the payload
  uint32_t length = 0;  // of the payload
};

// What a scan found.
struct SegmentScan {
  std::vector<SegmentEntry> entries;  // rising sequences
  size_t good_end = 0;                // first byte after the last good record
  bool damaged_inside = false;        // bytes before good_end that are no record
};

// Appends the record's bytes to `out`. `payload` is at most kMaxSpoolRecordBytes. Any thread.
void AppendRecord(uint64_t sequence, absl::string_view payload, std::string* out);

// Finds every good record in `content`, whatever else is there. Any thread.
SegmentScan ScanSegment(absl::string_view content);

// The payload of `entry`, checked. kDataLoss when it is no longer what was written; otherwise the errno's
// code. Any thread; blocking.
absl::StatusOr<std::string> ReadRecord(int fd, const SegmentEntry& entry);

// A segment's place in the epoch, spelled in its file name so that no damage inside can lose it.
struct SegmentName {
  std::string epoch;
  uint64_t first_sequence = 0;
};

// Sequences that were judged, as the `.ack` file beside a segment holds them; damaged entries are passed
// over.
void AppendGone(uint64_t sequence, std::string* out);
std::set<uint64_t> ScanGone(absl::string_view content);

std::string FormatSegmentName(const SegmentName& name);
// False if `file` is not a segment's name.
bool ParseSegmentName(absl::string_view file, SegmentName* name);

}  // namespace weft
