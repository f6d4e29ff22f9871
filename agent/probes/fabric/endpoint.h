// One libfabric endpoint with all it needs, for one domain. One thread.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "agent/probes/fabric/device.h"
#include "agent/probes/process/ticks.h"

namespace weft::fabric {

struct CloseFid {
  template <typename T>
  void operator()(T* object) const {
    fi_close(&object->fid);
  }
};
template <typename T>
using FidPtr = std::unique_ptr<T, CloseFid>;

struct Operation;

// Learns how operations ended, from within Endpoint::Progress.
class CompletionHandler {
 public:
  virtual ~CompletionHandler() = default;
  // `error` is 0 or a positive libfabric code; `length` counts received bytes. May post new operations.
  virtual void OnCompletion(Operation& operation, size_t length, int error) = 0;
};

// Context of one operation under way; must stay where it is until completed or the endpoint is gone.
struct Operation {
  fi_context2 context = {};  // the provider's own; its address names the operation
  CompletionHandler* handler = nullptr;
  uint64_t number = 0;  // the handler's own
};

// Memory that libfabric may read and write, and the peer too.
class Region {
 public:
  Region(Region&&) = default;
  absl::Span<uint8_t> bytes() const { return {memory_.get(), size_}; }
  void* descriptor() const { return descriptor_; }
  // What the peer needs to write here.
  uint64_t remote_address() const { return remote_address_; }
  uint64_t key() const { return key_; }

 private:
  friend class Endpoint;
  struct Unmap {
    size_t size;
    void operator()(uint8_t* memory) const;
  };
  Region() : memory_(nullptr, Unmap{0}) {}

  std::unique_ptr<uint8_t, Unmap> memory_;
  size_t size_ = 0;
  FidPtr<fid_mr> mr_;  // goes before the memory
  void* descriptor_ = nullptr;
  uint64_t remote_address_ = 0;
  uint64_t key_ = 0;
};

// How an endpoint waits once it has spun. Being able to block costs every completion about a microsecond on
// tcp, too much where latency is measured.
enum class Waiting { kBlock, kNap };

class Endpoint {
 public:
  // Opens and enables it: from now on peers can reach address(). `operations` bounds how many are ever under
  // way. kUnavailable, naming the call that failed and the domain.
  static absl::StatusOr<std::unique_ptr<Endpoint>> Open(Device device, size_t operations, Waiting waiting);

  const Device& device() const { return device_; }
  // As the peer must insert it.
  const std::string& address() const { return address_; }
  // kInvalidArgument for an address that cannot be one of this provider.
  absl::StatusOr<fi_addr_t> Insert(absl::string_view address);
  absl::StatusOr<Region> Register(size_t bytes);
  bool can_inject(size_t bytes) const { return bytes <= device_.info->tx_attr->inject_size; }
  fid_ep* get() const { return ep_.get(); }

  // Handles completions. Returns after the first batch, or when `max_wait` nanoseconds have passed. Spins for
  // up to `spin` nanoseconds of it, then blocks or naps, so that a probe that waits leaves the core to
  // others. kUnavailable when the completion queue itself is broken.
  absl::Status Progress(int64_t max_wait, int64_t spin);

 private:
  explicit Endpoint(Device device) : device_(std::move(device)) {}
  absl::Status OpenAll(size_t operations, Waiting waiting);
  absl::Status OpenQueue(size_t operations, Waiting waiting);
  absl::Status LearnAddress();
  absl::Status Failed(const char* call, int64_t code) const;
  // True when something was handled. Blocks up to `timeout_ms` if that is above zero.
  absl::StatusOr<bool> ReadQueue(int timeout_ms);
  absl::Status HandleError();

  Device device_;
  FidPtr<fid_fabric> fabric_;
  FidPtr<fid_domain> domain_;
  FidPtr<fid_av> av_;
  FidPtr<fid_cq> queue_;
  FidPtr<fid_ep> ep_;  // closed first
  bool can_block_ = false;
  uint64_t next_key_ = 1;
  std::string address_;
};

}  // namespace weft::fabric
