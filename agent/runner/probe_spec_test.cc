#include "agent/runner/probe_spec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace weft {
namespace {

v1::ProbeSpec GoodSpec() {
  v1::ProbeSpec spec;
  spec.set_name("fabric_write");
  spec.mutable_fabric();
  return spec;
}

v1::ProbeRequest GoodRequest() {
  v1::ProbeRequest request;
  *request.mutable_spec() = GoodSpec();
  request.set_world_size(2);
  request.mutable_deadline()->set_seconds(10);
  return request;
}

bool Valid(const v1::ProbeSpec& spec) { return ValidateProbeSpec(spec).ok(); }
bool Valid(const v1::ProbeRequest& request) { return ValidateProbeRequest(request).ok(); }

TEST(ProbeSpec, DefaultsAreAccepted) { EXPECT_TRUE(Valid(GoodSpec())); }

TEST(ProbeSpec, UnknownKindIsUnimplemented) {
  v1::ProbeSpec spec = GoodSpec();
  spec.clear_kind();
  EXPECT_EQ(ValidateProbeSpec(spec).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(ProbeExecutable(spec).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(ProbeSpec, NamesOutsideTheAlphabetAreRefused) {
  for (const char* name : {"", "Fabric", "a b", "../../bin/sh", "x;y"}) {
    v1::ProbeSpec spec = GoodSpec();
    spec.set_name(name);
    EXPECT_FALSE(Valid(spec)) << name;
  }
  v1::ProbeSpec spec = GoodSpec();
  spec.set_name(std::string(64, 'a'));
  EXPECT_TRUE(Valid(spec));
  spec.set_name(std::string(65, 'a'));
  EXPECT_FALSE(Valid(spec));
}

TEST(ProbeSpec, MessageSizesReachFromOneByteTo64MiB) {
  for (const uint64_t size : {uint64_t{1}, uint64_t{64} << 20}) {
    v1::ProbeSpec spec = GoodSpec();
    spec.mutable_fabric()->add_message_size_bytes(size);
    EXPECT_TRUE(Valid(spec)) << size;
  }
  for (const uint64_t size : {uint64_t{0}, (uint64_t{64} << 20) + 1, std::numeric_limits<uint64_t>::max()}) {
    v1::ProbeSpec spec = GoodSpec();
    spec.mutable_fabric()->add_message_size_bytes(size);
    EXPECT_FALSE(Valid(spec)) << size;
  }
}

TEST(ProbeSpec, CountsAboveTheirLimitsAreRefused) {
  v1::ProbeSpec sizes = GoodSpec();
  for (int i = 0; i < 17; ++i) sizes.mutable_fabric()->add_message_size_bytes(8);
  EXPECT_FALSE(Valid(sizes));
  v1::ProbeSpec window = GoodSpec();
  window.mutable_fabric()->set_window(1025);
  EXPECT_FALSE(Valid(window));
  v1::ProbeSpec bytes = GoodSpec();
  bytes.mutable_fabric()->set_bytes_per_size((16ULL << 30) + 1);
  EXPECT_FALSE(Valid(bytes));
  v1::ProbeSpec iterations = GoodSpec();
  iterations.mutable_fabric()->set_latency_iterations(1000001);
  EXPECT_FALSE(Valid(iterations));
}

TEST(ProbeSpec, MeasuringNothingIsRefused) {
  v1::ProbeSpec spec = GoodSpec();
  spec.mutable_fabric()->set_skip_bandwidth(true);
  EXPECT_TRUE(Valid(spec));
  spec.mutable_fabric()->set_skip_latency(true);
  EXPECT_FALSE(Valid(spec));
}

TEST(ProbeSpec, ProviderAndDomainCannotCarryAnythingButNames) {
  v1::ProbeSpec spec = GoodSpec();
  spec.mutable_fabric()->set_provider("tcp;ofi_rxm");
  spec.mutable_fabric()->set_domain("rdmap0s6-rdm");
  EXPECT_TRUE(Valid(spec));
  spec.mutable_fabric()->set_provider("tcp,^shm");
  EXPECT_FALSE(Valid(spec));
  spec = GoodSpec();
  spec.mutable_fabric()->set_domain("a\nb");
  EXPECT_FALSE(Valid(spec));
}

v1::ProbeSpec GoodNccl() {
  v1::ProbeSpec spec;
  spec.set_name("nccl");
  spec.mutable_nccl();
  return spec;
}

TEST(NcclSpec, SizesReachFromEightBytesTo16GiB) {
  EXPECT_TRUE(Valid(GoodNccl()));
  for (const uint64_t size : {uint64_t{8}, uint64_t{16} << 30}) {
    v1::ProbeSpec spec = GoodNccl();
    spec.mutable_nccl()->add_message_size_bytes(size);
    EXPECT_TRUE(Valid(spec)) << size;
  }
  for (const uint64_t size : {uint64_t{0}, uint64_t{7}, (uint64_t{16} << 30) + 1}) {
    v1::ProbeSpec spec = GoodNccl();
    spec.mutable_nccl()->add_message_size_bytes(size);
    EXPECT_FALSE(Valid(spec)) << size;
  }
  v1::ProbeSpec many = GoodNccl();
  for (int i = 0; i < 17; ++i) many.mutable_nccl()->add_message_size_bytes(8);
  EXPECT_FALSE(Valid(many));
}

TEST(NcclSpec, CountsAndDeadlinesAboveTheirLimitsAreRefused) {
  v1::ProbeSpec spec = GoodNccl();
  spec.mutable_nccl()->set_iterations(10000);
  spec.mutable_nccl()->set_warm_up_iterations(1000);
  spec.mutable_nccl()->mutable_init_deadline()->set_seconds(600);
  spec.mutable_nccl()->mutable_size_deadline()->set_seconds(600);
  EXPECT_TRUE(Valid(spec));
  const auto refused = [](auto change) {
    v1::ProbeSpec changed = GoodNccl();
    change(*changed.mutable_nccl());
    return !Valid(changed);
  };
  EXPECT_TRUE(refused([](v1::NcclProbe& p) { p.set_iterations(10001); }));
  EXPECT_TRUE(refused([](v1::NcclProbe& p) { p.set_warm_up_iterations(1001); }));
  EXPECT_TRUE(refused([](v1::NcclProbe& p) { p.mutable_init_deadline()->set_seconds(601); }));
  EXPECT_TRUE(refused([](v1::NcclProbe& p) { p.mutable_size_deadline()->set_seconds(-1); }));
  EXPECT_TRUE(refused(
      [](v1::NcclProbe& p) { p.mutable_size_deadline()->set_seconds(std::numeric_limits<int64_t>::max()); }));
}

TEST(NcclSpec, UnknownEnumsAndPlacementsThatCannotBeAreRefused) {
  v1::ProbeSpec spec = GoodNccl();
  spec.mutable_nccl()->set_collective(static_cast<v1::NcclCollective>(99));
  EXPECT_FALSE(Valid(spec));
  spec = GoodNccl();
  spec.mutable_nccl()->set_data_type(static_cast<v1::NcclDataType>(99));
  EXPECT_FALSE(Valid(spec));
  for (const auto collective : {v1::NCCL_COLLECTIVE_ALL_TO_ALL, v1::NCCL_COLLECTIVE_SEND_RECV}) {
    spec = GoodNccl();
    spec.mutable_nccl()->set_collective(collective);
    EXPECT_TRUE(Valid(spec));
    spec.mutable_nccl()->set_placement(v1::NCCL_PLACEMENT_BOTH);
    EXPECT_FALSE(Valid(spec));
  }
}

TEST(NcclSpec, RequiredNetworkIsANameAndNothingElse) {
  for (const char* name : {"", "IB", "AWS Libfabric", "GPUDirectTCPX_v7"}) {
    v1::ProbeSpec spec = GoodNccl();
    spec.mutable_nccl()->set_require_network(name);
    EXPECT_TRUE(Valid(spec)) << name;
  }
  for (const char* name : {"../lib.so", "a=b", "a\nb", "IB;"}) {
    v1::ProbeSpec spec = GoodNccl();
    spec.mutable_nccl()->set_require_network(name);
    EXPECT_FALSE(Valid(spec)) << name;
  }
}

TEST(GpuCopySpec, BytesAreWithinTheirBoundsAndSomethingIsMeasured) {
  v1::ProbeSpec spec;
  spec.set_name("copies");
  spec.mutable_gpu_copy();
  EXPECT_TRUE(Valid(spec));
  spec.mutable_gpu_copy()->set_bytes(4095);
  EXPECT_FALSE(Valid(spec));
  spec.mutable_gpu_copy()->set_bytes((uint64_t{4} << 30) + 1);
  EXPECT_FALSE(Valid(spec));
  spec.mutable_gpu_copy()->set_bytes(4096);
  spec.mutable_gpu_copy()->set_skip_peer(true);
  spec.mutable_gpu_copy()->set_skip_host(true);
  EXPECT_TRUE(Valid(spec));
  spec.mutable_gpu_copy()->set_skip_device_to_device(true);
  EXPECT_FALSE(Valid(spec));
}

TEST(ProbeRequest, NcclTakesOneTo1024ParticipantsAndCopiesOne) {
  v1::ProbeRequest request = GoodRequest();
  *request.mutable_spec() = GoodNccl();
  for (const uint32_t world : {1U, 2U, 1024U}) {
    request.set_world_size(world);
    EXPECT_TRUE(Valid(request)) << world;
  }
  for (const uint32_t world : {0U, 1025U}) {
    request.set_world_size(world);
    EXPECT_FALSE(Valid(request)) << world;
  }
  request.mutable_spec()->mutable_gpu_copy();
  request.set_world_size(1);
  EXPECT_TRUE(Valid(request));
  request.set_world_size(2);
  EXPECT_FALSE(Valid(request));
}

TEST(ProbeRequest, DeadlineIsAboveZeroAndAtMostAnHour) {
  v1::ProbeRequest request = GoodRequest();
  EXPECT_TRUE(Valid(request));
  request.mutable_deadline()->set_seconds(3600);
  EXPECT_TRUE(Valid(request));
  request.mutable_deadline()->set_nanos(1);
  EXPECT_FALSE(Valid(request));
  request.clear_deadline();
  EXPECT_FALSE(Valid(request));
  request.mutable_deadline()->set_seconds(-1);
  EXPECT_FALSE(Valid(request));
  request.mutable_deadline()->set_seconds(std::numeric_limits<int64_t>::max());
  EXPECT_FALSE(Valid(request));
}

TEST(ProbeRequest, OnlyRanksAboveZeroHaveARendezvous) {
  v1::ProbeRequest request = GoodRequest();
  request.set_rendezvous("x");
  EXPECT_FALSE(Valid(request));
  request.set_rank(1);
  EXPECT_TRUE(Valid(request));
  request.set_rendezvous(std::string(4097, 'x'));
  EXPECT_FALSE(Valid(request));
  request.clear_rendezvous();
  EXPECT_FALSE(Valid(request));
}

TEST(ProbeRequest, FabricNeedsExactlyTwoRanks) {
  for (const uint32_t world : {0U, 1U, 3U}) {
    v1::ProbeRequest request = GoodRequest();
    request.set_world_size(world);
    EXPECT_FALSE(Valid(request)) << world;
  }
  v1::ProbeRequest request = GoodRequest();
  request.set_rank(2);
  request.set_rendezvous("x");
  EXPECT_FALSE(Valid(request));
}

TEST(ProbeRequest, EmulatedRateMustBeANumber) {
  for (const double rate : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    v1::ProbeRequest request = GoodRequest();
    request.set_emulated_link_bytes_per_second(rate);
    EXPECT_FALSE(Valid(request)) << rate;
  }
}

}  // namespace
}  // namespace weft
