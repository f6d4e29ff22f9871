#include "agent/probes/fabric/endpoint.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace weft::fabric {
namespace {

// Providers may lose a wake-up; nothing may then hang longer than this.
constexpr int64_t kMaxBlock = 10 * kMillisecond;
constexpr int64_t kShortNap = 50 * kMicrosecond;
// Yielding spins this long where the provider cannot block.
constexpr int64_t kYield = kMillisecond;

void HandleEntry(void* context, size_t length, int error) {
  if (context == nullptr) return;
  Operation& operation = *reinterpret_cast<Operation*>(context);
  if (operation.handler != nullptr) operation.handler->OnCompletion(operation, length, error);
}

}  // namespace

void Region::Unmap::operator()(uint8_t* memory) const { munmap(memory, size); }

absl::StatusOr<std::unique_ptr<Endpoint>> Endpoint::Open(Device device, size_t operations, Waiting waiting) {
  std::unique_ptr<Endpoint> endpoint(new Endpoint(std::move(device)));
  if (absl::Status s = endpoint->OpenAll(operations, waiting); !s.ok()) return s;
  return endpoint;
}

absl::Status Endpoint::Failed(const char* call, int64_t code) const {
  return FabricError(absl::StatusCode::kUnavailable, code,
                     absl::StrCat(call, " on ", device_.provider, " ", device_.domain));
}

absl::Status Endpoint::OpenAll(size_t operations, Waiting waiting) {
  fi_info* info = device_.info.get();
  fid_fabric* fabric = nullptr;
  if (const int rc = fi_fabric(info->fabric_attr, &fabric, nullptr)) return Failed("fi_fabric", rc);
  fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  if (const int rc = fi_domain(fabric, info, &domain, nullptr)) return Failed("fi_domain", rc);
  domain_.reset(domain);
  fi_av_attr av_attr = {};
  av_attr.type = FI_AV_UNSPEC;
  fid_av* av = nullptr;
  if (const int rc = fi_av_open(domain, &av_attr, &av, nullptr)) return Failed("fi_av_open", rc);
  av_.reset(av);
  if (absl::Status s = OpenQueue(operations, waiting); !s.ok()) return s;
  fid_ep* ep = nullptr;
  if (const int rc = fi_endpoint(domain, info, &ep, nullptr)) return Failed("fi_endpoint", rc);
  ep_.reset(ep);
  if (const int rc = fi_ep_bind(ep, &av->fid, 0)) return Failed("fi_ep_bind of the addresses", rc);
  if (const int rc = fi_ep_bind(ep, &queue_->fid, FI_TRANSMIT | FI_RECV))
    return Failed("fi_ep_bind of the queue", rc);
  if (const int rc = fi_enable(ep)) return Failed("fi_enable", rc);
  return LearnAddress();
}

absl::Status Endpoint::OpenQueue(size_t operations, Waiting waiting) {
  fi_cq_attr attr = {};
  attr.size = operations;
  attr.format = FI_CQ_FORMAT_MSG;
  // Only a descriptor: the waits that shm offers by itself yield for ever and forget the time-out.
  attr.wait_obj = FI_WAIT_FD;
  fid_cq* queue = nullptr;
  int rc = waiting == Waiting::kBlock ? fi_cq_open(domain_.get(), &attr, &queue, nullptr) : -FI_ENOSYS;
  can_block_ = rc == 0;
  if (!can_block_) {
    attr.wait_obj = FI_WAIT_NONE;
    rc = fi_cq_open(domain_.get(), &attr, &queue, nullptr);
  }
  if (rc != 0) return Failed("fi_cq_open", rc);
  queue_.reset(queue);
  return absl::OkStatus();
}

absl::Status Endpoint::LearnAddress() {
  std::array<char, 256> buffer = {};
  size_t length = buffer.size();
  if (const int rc = fi_getname(&ep_->fid, buffer.data(), &length)) return Failed("fi_getname", rc);
  address_.assign(buffer.data(), std::min(length, buffer.size()));
  return absl::OkStatus();
}

absl::StatusOr<fi_addr_t> Endpoint::Insert(absl::string_view address) {
  const absl::Status bad = absl::InvalidArgumentError(
      absl::StrCat("the peer's address cannot be one of ", device_.provider, " ", device_.domain));
  std::string copy(address);
  if (device_.info->addr_format == FI_ADDR_STR) {
    // libfabric reads to the end of the string.
    if (copy.empty()) return bad;
    copy.push_back('\0');
  } else if (copy.size() != address_.size()) {
    return bad;
  }
  const bool socket =
      device_.info->addr_format == FI_SOCKADDR_IN || device_.info->addr_format == FI_SOCKADDR_IN6;
  if (socket && copy.compare(0, sizeof(sa_family_t), address_, 0, sizeof(sa_family_t)) != 0) return bad;
  fi_addr_t peer = FI_ADDR_UNSPEC;
  if (fi_av_insert(av_.get(), copy.data(), 1, &peer, 0, nullptr) != 1) return bad;
  return peer;
}

absl::StatusOr<Region> Endpoint::Register(size_t bytes) {
  Region region;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes of messages"));
  // Small pages halve what shm moves; where there are none of 2 MiB the call fails and nothing is lost.
  madvise(memory, bytes, MADV_HUGEPAGE);
  region.memory_ = {static_cast<uint8_t*>(memory), Region::Unmap{bytes}};
  region.size_ = bytes;
  fid_mr* mr = nullptr;
  const int rc = fi_mr_reg(domain_.get(), memory, bytes, FI_SEND | FI_RECV | FI_WRITE | FI_REMOTE_WRITE, 0,
                           next_key_++, 0, &mr, nullptr);
  if (rc != 0) return Failed("fi_mr_reg", rc);
  region.mr_.reset(mr);
  region.descriptor_ = fi_mr_desc(mr);
  region.key_ = fi_mr_key(mr);
  const bool by_address = (device_.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  region.remote_address_ = by_address ? reinterpret_cast<uintptr_t>(memory) : 0;
  return region;
}

absl::Status Endpoint::HandleError() {
  fi_cq_err_entry entry = {};
  const ssize_t rc = fi_cq_readerr(queue_.get(), &entry, 0);
  if (rc == -FI_EAGAIN) return absl::OkStatus();
  if (rc < 0) return Failed("fi_cq_readerr", rc);
  HandleEntry(entry.op_context, entry.len, entry.err == 0 ? FI_EOTHER : entry.err);
  return absl::OkStatus();
}

absl::StatusOr<bool> Endpoint::ReadQueue(int timeout_ms) {
  std::array<fi_cq_msg_entry, 32> entries;
  const ssize_t got = timeout_ms > 0
                          ? fi_cq_sread(queue_.get(), entries.data(), entries.size(), nullptr, timeout_ms)
                          : fi_cq_read(queue_.get(), entries.data(), entries.size());
  if (got == -FI_EAVAIL) {
    if (absl::Status s = HandleError(); !s.ok()) return s;
    return true;
  }
  if (got == -FI_EAGAIN || got == -FI_EINTR || got == 0) return false;
  if (got < 0) return Failed("fi_cq_read", got);
  for (ssize_t i = 0; i < got; ++i)
    HandleEntry(entries[static_cast<size_t>(i)].op_context, entries[static_cast<size_t>(i)].len, 0);
  return true;
}

absl::Status Endpoint::Progress(int64_t max_wait, int64_t spin) {
  absl::StatusOr<bool> handled = ReadQueue(0);
  if (max_wait <= 0 || !handled.ok() || *handled) return handled.status();
  const int64_t start = NowTicks();
  const int64_t end = start + std::min(max_wait, kMaxBlock);
  while (handled.ok() && !*handled) {
    const int64_t now = NowTicks();
    if (now >= end) break;
    if (now - start < spin) {
      handled = ReadQueue(0);
    } else if (can_block_ && end - now >= kMillisecond) {
      handled = ReadQueue(static_cast<int>((end - now) / kMillisecond));
    } else {
      if (now - start < std::min(spin + kYield, max_wait) && !can_block_)
        sched_yield();
      else
        usleep(static_cast<useconds_t>(std::min(kShortNap, end - now) / kMicrosecond + 1));
      handled = ReadQueue(0);
    }
  }
  return handled.status();
}

}  // namespace weft::fabric
