// Watches what carries the bytes of one run, and judges it against what this node promises.
#pragma once

#include <string>
#include <vector>

#include "agent/inventory/byte_counters.h"
#include "weft/v1/config.pb.h"
#include "weft/v1/probe.pb.h"

namespace weft {

struct TransportOptions {
  std::string root;           // below which /sys lies
  v1::FabricPromise promise;  // an unset has_rdma: yes if this node has an RDMA device
};

// One run, one thread.
class TransportWatch {
 public:
  // Reads the NICs' byte counters.
  explicit TransportWatch(const TransportOptions& options);
  // Reads them again and sets result->transport. Only for an NCCL run that came as far as a log.
  void Judge(v1::Result* result) const;

 private:
  const TransportOptions& options_;
  const std::vector<ByteCounter> before_;
};

}  // namespace weft
