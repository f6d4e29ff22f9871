// Whatever a log holds, it is parsed and judged without a crash and within its bounds. Seeds: testdata/.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "agent/probes/transport/verdict.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const weft::NcclFacts facts = weft::ParseNcclLog(text);
  const weft::TransportExpectation expected = {.has_rdma_fabric = true,
                                               .networks = {"Libfabric"},
                                               .nics = {"mlx5_0", "mlx5_1"},
                                               .gdr = true,
                                               .nvls = true,
                                               .p2p = true,
                                               .local_ranks = {},
                                               .network_bytes = size};
  const weft::TransportProof proof = weft::JudgeTransport(facts, {}, expected);
  const bool bounded = facts.unknown.size() <= weft::kMaxNcclUnknown && proof.uses.size() <= 64 &&
                       facts.channels.size() <= weft::kMaxNcclChannels;
  for (const weft::TransportFinding& finding : proof.findings)
    if (finding.evidence.size() > 8) abort();
  if (!bounded) abort();
  return 0;
}
