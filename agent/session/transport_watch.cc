#include "agent/session/transport_watch.h"

#include <algorithm>

#include "agent/probes/transport/nccl_log.h"
#include "agent/probes/transport/verdict.h"
#include "convert/convert.h"

namespace weft {
namespace {

TransportExpectation ExpectationOf(const v1::FabricPromise& promise, const std::vector<ByteCounter>& counters,
                                   const v1::NcclReport& report) {
  TransportExpectation expected;
  const bool has_device =
      std::any_of(counters.begin(), counters.end(), [](const ByteCounter& counter) { return counter.rdma; });
  expected.has_rdma_fabric = promise.has_has_rdma() ? promise.has_rdma() : has_device;
  expected.networks.assign(promise.networks().begin(), promise.networks().end());
  expected.nics.assign(promise.nics().begin(), promise.nics().end());
  expected.gdr = promise.gdr();
  expected.nvls = promise.nvls();
  expected.p2p = promise.p2p();
  for (const v1::NcclRank& rank : report.own_ranks()) expected.local_ranks.insert(rank.rank());
  return expected;
}

}  // namespace

TransportWatch::TransportWatch(const TransportOptions& options)
    : options_(options), before_(ReadByteCounters(options.root)) {}

void TransportWatch::Judge(v1::Result* result) const {
  if (result->nccl().log().empty()) return;
  const std::vector<ByteCounter> after = ReadByteCounters(options_.root);
  const TransportProof proof =
      JudgeTransport(ParseNcclLog(result->nccl().log()), TrafficBetween(before_, after),
                     ExpectationOf(options_.promise, after, result->nccl()));
  ToProto(proof, result->mutable_transport());
}

}  // namespace weft
