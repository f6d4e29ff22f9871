// Runs all participants of an NCCL probe on this machine through the agent's runner, as agents would, against
// the fake GPUs and NCCL. For tests.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "weft/v1/probe.pb.h"

namespace weft::nccl {

// One participant.
struct Member {
  int gpus = 1;
  // WEFT_FAKE_NCCL_FAULTS of this one alone.
  std::string faults;
  // More environment, as NAME=value; wins over the rest.
  std::vector<std::string> environment;
};

struct GroupOptions {
  v1::NcclProbe probe;
  std::vector<Member> members;
  absl::Duration deadline = absl::Seconds(60);
  // WEFT_FAKE_NCCL_FAULTS of all.
  std::string faults;
  std::string nccl_variant;  // "", "_old", "_broken"
};

// By participant. The others get UNSPECIFIED when participant 0 ended without a rendezvous.
// Reaper::BecomeSubreaper was called.
std::vector<v1::Result> RunGroup(const GroupOptions& options);

}  // namespace weft::nccl
