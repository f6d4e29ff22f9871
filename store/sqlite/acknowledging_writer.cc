// Appends results to the store at argv[1] for ever, from sequence argv[2] on, and writes the sequences that
// the store acknowledged to standard output, eight bytes each. For a test that kills it.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

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
  constexpr uint64_t kRanks = 1000;
  uint64_t last_run = 0;
  for (;; ++sequence) {
    const uint64_t number = sequence / kRanks + 1;
    const std::string run = "r" + std::to_string(number);
    // There already where an earlier life stopped in the middle of it.
    if (std::exchange(last_run, number) != number) (*store)->PutRuns({WideRun(run, kRanks)}).IgnoreError();
    const uint32_t rank = static_cast<uint32_t>(sequence % kRanks);
    ResultAppend append{"node-a", "epoch-1", {{sequence, TestResult(run, "node-a", rank)}}};
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
