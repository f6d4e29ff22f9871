// Lists the records in a stopped agent's spool, judged ones that are still on disk too, as
// "EPOCH SEQUENCE RUN_ID RANK" lines. Reads only.
//   weft-e2e-spool-list FOLDER
#include <filesystem>
#include <iostream>

#include "agent/spool/segment.h"
#include "base/file.h"
#include "weft/v1/probe.pb.h"

namespace {

bool List(const std::filesystem::path& path, const std::string& epoch) {
  const auto content = weft::ReadFile(path.string());
  if (!content.ok()) {
    std::cerr << content.status() << "\n";
    return false;
  }
  for (const weft::SegmentEntry& entry : weft::ScanSegment(*content).entries) {
    weft::v1::Result result;
    if (!result.ParseFromString(content->substr(entry.offset, entry.length))) return false;
    std::cout << epoch << " " << entry.sequence << " " << result.run_id() << " " << result.rank() << "\n";
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  for (const auto& file : std::filesystem::recursive_directory_iterator(argv[1])) {
    weft::SegmentName name;
    if (!weft::ParseSegmentName(file.path().filename().string(), &name)) continue;
    if (!List(file.path(), name.epoch)) return 1;
  }
  return 0;
}
