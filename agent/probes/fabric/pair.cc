#include "agent/probes/fabric/pair.h"

#include <future>
#include <thread>

#include "absl/strings/str_cat.h"
#include "agent/runner/cancel_token.h"
#include "agent/runner/runner.h"

namespace weft::fabric {
namespace {

v1::ProbeRequest MakeRequest(const PairOptions& options, uint32_t rank) {
  v1::ProbeRequest request;
  request.set_run_id("pair");
  request.mutable_spec()->set_name("fabric_pair");
  *request.mutable_spec()->mutable_fabric() = options.probe;
  request.set_rank(rank);
  request.set_world_size(2);
  request.set_emulated_link_bytes_per_second(options.link_rates[rank]);
  const int64_t ns = absl::ToInt64Nanoseconds(options.deadline);
  request.mutable_deadline()->set_seconds(ns / 1000000000);
  request.mutable_deadline()->set_nanos(static_cast<int32_t>(ns % 1000000000));
  return request;
}

}  // namespace

PairResults RunPair(const PairOptions& options) {
  Reaper reaper;
  CancelToken cancel;
  PairResults results;
  std::promise<std::string> offered;
  std::future<std::string> offer = offered.get_future();
  std::thread rank0([&] {
    bool given = false;
    ProbeRunner runner({.probe_dir = options.probe_dirs[0]}, reaper);
    results[0] = runner.Run(
        MakeRequest(options, 0),
        [&](std::string rendezvous) {
          given = true;
          offered.set_value(std::move(rendezvous));
        },
        cancel);
    if (!given) offered.set_value("");
  });
  v1::ProbeRequest request = MakeRequest(options, 1);
  request.set_rendezvous(offer.get());
  if (!request.rendezvous().empty())
    results[1] = ProbeRunner({.probe_dir = options.probe_dirs[1]}, reaper).Run(request, nullptr, cancel);
  rank0.join();
  return results;
}

}  // namespace weft::fabric
