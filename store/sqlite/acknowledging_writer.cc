// Appends results to the store at argv[1] for ever, from sequence argv[2] on, and writes the sequences that
// the store acknowledged to standard output, eight bytes each. For a test that kills it.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "store/sqlite/sqlite_store.h"
#include "store/test_values.h"

namespace weft {
namespace {

void Acknowledge(const absl::StatusOr<ResultAppendOutcome>& outcome) {
  if (!outcome.ok()) std::abort();
  for (const auto* list : {&outcome->stored, &outcome->duplicate}) {
    for (const uint64_t sequence : *list) {
      if (write(STDOUT_FILENO, &sequence, sizeof(sequence)) != sizeof(sequence)) std::abort();
    }
  }
}

int AppendForEver(const std::string& path, uint64_t sequence) {
  SqliteStoreOptions options;
  options.path = path;
  auto store = OpenSqliteStore(options);
  if (!store.ok()) return 1;
  (*store)->PutRuns({TestRun("r1")}).IgnoreError();  // there already from the second time on
  for (;; ++sequence) {
    ResultAppend append{"node-a", "epoch-1", {{sequence, TestResult("r1")}}};
    append.records[0].result.detail = std::to_string(sequence);
    // When the queue is full, the same one again.
    if (!(*store)->AppendResults(std::move(append), &Acknowledge).ok()) --sequence;
  }
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return weft::AppendForEver(argv[1], std::strtoull(argv[2], nullptr, 10));
}
