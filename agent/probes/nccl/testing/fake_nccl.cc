// A stand-in for libnccl.so.2 in tests: ranks of any number of processes on one machine meet in a file that
// they map, and really move and add the bytes, so that the probe's check of data is one. Works on the fake
// CUDA's streams.
//   WEFT_FAKE_DIR           folder of the files
//   WEFT_FAKE_NCCL_VERSION  default 22803
//   WEFT_FAKE_NCCL_FAULTS   faults, divided by ','; each "kind:rank:operation:milliseconds", operations
//   counted
//                           from 0 within the communicator, missing numbers 0:
//     hang_init    the rank never comes        error_init  its making fails
//     hang         its operation never ends    error       an asynchronous error comes instead
//     wrong        one byte that it receives is wrong, from that operation on
//     slow         each operation from that one on takes so much longer
//     late         each operation from that one on ends so much later at that rank
//     stop, die    the whole process stops (SIGSTOP), or is killed, in that operation
//     slow_abort   its abort takes so long
// With WEFT_FAKE_NCCL_OLD defined it is a 2.12 without ncclCommInitRankConfig and ncclCommFinalize; with
// WEFT_FAKE_NCCL_BROKEN it lacks ncclCommAbort.
#include <fcntl.h>
#include <nccl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

extern "C" void WeftFakeEnqueue(cudaStream_t stream, void (*function)(void*), void* argument);
extern "C" int WeftFakeCurrentDevice();

namespace {

constexpr size_t kSlotBytes = 8 << 20;
constexpr size_t kMaxRanks = 64;
constexpr auto kPoll = std::chrono::microseconds(200);

// One rank's place in the file.
struct Slot {
  std::atomic<int> pid;
  std::atomic<uint64_t> published;          // operations whose data lies in `bytes`
  std::atomic<uint64_t> consumed;           // operations that this rank has read from all others
  std::array<uint64_t, kMaxRanks> offsets;  // of what is for each rank
  char bytes[kSlotBytes];
};

struct Fault {
  std::string kind;
  int rank = 0;
  uint64_t operation = 0;
  int milliseconds = 0;
};

std::vector<Fault> Faults() {
  std::vector<Fault> faults;
  const char* const text = std::getenv("WEFT_FAKE_NCCL_FAULTS");
  std::stringstream items(text != nullptr ? text : "");
  for (std::string item; std::getline(items, item, ',');) {
    std::stringstream words(item);
    std::string rank, operation, milliseconds;
    Fault fault;
    std::getline(words, fault.kind, ':');
    if (std::getline(words, rank, ':')) fault.rank = std::atoi(rank.c_str());
    if (std::getline(words, operation, ':')) fault.operation = std::strtoull(operation.c_str(), nullptr, 10);
    if (std::getline(words, milliseconds, ':')) fault.milliseconds = std::atoi(milliseconds.c_str());
    faults.push_back(fault);
  }
  return faults;
}

int Version() {
  const char* const text = std::getenv("WEFT_FAKE_NCCL_VERSION");
#ifdef WEFT_FAKE_NCCL_OLD
  return text != nullptr ? std::atoi(text) : 21212;
#else
  return text != nullptr ? std::atoi(text) : 22803;
#endif
}

void Log(const std::string& text) {
  const char* const level = std::getenv("NCCL_DEBUG");
  if (level == nullptr || std::string(level) != "INFO") return;
  std::printf("fakehost:%d:%d [%d] NCCL INFO %s\n", getpid(), gettid(), WeftFakeCurrentDevice(),
              text.c_str());
  std::fflush(stdout);
}

bool ProcessIsGone(int pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(stat, line)) return true;
  const size_t name_end = line.rfind(')');
  return name_end != std::string::npos && line.size() > name_end + 2 && line[name_end + 2] == 'Z';
}

}  // namespace

struct ncclComm {
  std::string path;
  Slot* slots = nullptr;
  int rank = 0;
  int ranks = 0;
  bool blocking = true;
  std::atomic<int> error{ncclSuccess};
  std::atomic<bool> aborted{false};
  std::atomic<int> busy{0};  // operations in streams
  std::atomic<bool> launching{false};
  uint64_t operations = 0;
  std::vector<Fault> faults;
  std::thread starter;
  ncclResult_t started = ncclSuccess;

  const Fault* Find(const char* kind, uint64_t operation) const {
    for (const Fault& fault : faults)
      if (fault.kind == kind && fault.rank == rank && fault.operation == operation) return &fault;
    return nullptr;
  }
  const Fault* FindFrom(const char* kind, uint64_t operation) const {
    for (const Fault& fault : faults)
      if (fault.kind == kind && fault.rank == rank && fault.operation <= operation) return &fault;
    return nullptr;
  }
  Slot& own() { return slots[rank]; }
  // False when aborted, or when a process that would make it true is gone.
  bool Wait(const std::function<bool(Slot&)>& is);
};

bool ncclComm::Wait(const std::function<bool(Slot&)>& is) {
  for (int turn = 0;; ++turn) {
    if (aborted || (error != ncclSuccess && error != ncclInProgress)) return false;
    if (std::all_of(slots, slots + ranks, is)) return true;
    for (int i = 0; turn % 100 == 99 && i < ranks; ++i) {
      const int pid = slots[i].pid;
      if (is(slots[i]) || pid == 0 || !ProcessIsGone(pid)) continue;
      error = ncclRemoteError;
      return false;
    }
    std::this_thread::sleep_for(kPoll);
  }
}

namespace {

// One part that a rank sends or receives.
struct Part {
  int peer;
  const void* from;
  void* to;
  size_t bytes;
};

// An operation of one rank: it shows parts to peers, waits for theirs, and takes them.
struct Operation {
  ncclComm* comm;
  uint64_t number;
  std::vector<Part> sends;
  // Reads the peers' slots.
  std::function<void()> take;
  void* output;  // where `wrong` strikes; null for none
};

void Misbehave(Operation& op) {
  ncclComm& comm = *op.comm;
  if (const Fault* slow = comm.FindFrom("slow", op.number))
    std::this_thread::sleep_for(std::chrono::milliseconds(slow->milliseconds));
  if (comm.Find("error", op.number)) comm.error = ncclRemoteError;
  if (comm.Find("stop", op.number)) raise(SIGSTOP);
  if (comm.Find("die", op.number)) raise(SIGKILL);
  while (comm.Find("hang", op.number) && !comm.aborted) std::this_thread::sleep_for(kPoll);
}

void Perform(Operation& op) {
  ncclComm& comm = *op.comm;
  Misbehave(op);
  const uint64_t number = op.number;
  if (!comm.Wait([number](Slot& s) { return s.consumed >= number; })) return;
  size_t at = 0;
  for (const Part& part : op.sends) {
    if (at + part.bytes > kSlotBytes) {
      comm.error = ncclInternalError;
      return;
    }
    std::memcpy(comm.own().bytes + at, part.from, part.bytes);
    // One part for everybody, or one for each peer.
    if (part.peer < 0) {
      comm.own().offsets.fill(at);
    } else {
      comm.own().offsets[static_cast<size_t>(part.peer)] = at;
    }
    at += part.bytes;
  }
  comm.own().published = number + 1;
  if (!comm.Wait([number](Slot& s) { return s.published > number; })) return;
  op.take();
  if (comm.FindFrom("wrong", number) && op.output != nullptr)
    static_cast<unsigned char*>(op.output)[3] ^= 0x40;
  if (const Fault* late = comm.FindFrom("late", number))
    std::this_thread::sleep_for(std::chrono::milliseconds(late->milliseconds));
  comm.own().consumed = number + 1;
}

void Enqueue(Operation op, cudaStream_t stream) {
  ++op.comm->busy;
  WeftFakeEnqueue(
      stream,
      [](void* argument) {
        const std::unique_ptr<Operation> mine(static_cast<Operation*>(argument));
        Perform(*mine);
        --mine->comm->busy;
      },
      new Operation(std::move(op)));
}

const char* DataFor(ncclComm* comm, int from) {
  Slot& slot = comm->slots[from];
  return slot.bytes + slot.offsets[static_cast<size_t>(comm->rank)];
}

size_t BytesOf(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclFloat64:
      return 8;
    default:
      return 4;
  }
}

float FromHalf(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  return exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                       : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

uint16_t ToHalf(float value) {
  if (value == 0) return 0;
  int exponent = 0;
  const float fraction = std::frexp(value, &exponent);  // 0.5 to 1
  return static_cast<uint16_t>((exponent + 14) << 10 | (static_cast<int>(fraction * 2048) & 1023));
}

float FromBfloat(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

uint16_t ToBfloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

template <typename T, typename Decode, typename Encode>
void AddAll(void* sum, const std::vector<const char*>& parts, size_t count, Decode decode, Encode encode) {
  for (size_t i = 0; i < count; ++i) {
    auto total = decode(T{});
    for (const char* part : parts) {
      T value;
      std::memcpy(&value, part + i * sizeof(T), sizeof value);
      total = total + decode(value);
    }
    const T result = encode(total);
    std::memcpy(static_cast<char*>(sum) + i * sizeof(T), &result, sizeof result);
  }
}

void Add(ncclDataType_t type, void* sum, const std::vector<const char*>& parts, size_t count) {
  const auto same = [](auto value) { return value; };
  switch (type) {
    case ncclInt8:
      return AddAll<int8_t>(
          sum, parts, count, [](int8_t v) { return static_cast<int>(v); },
          [](int v) { return static_cast<int8_t>(v); });
    case ncclFloat16:
      return AddAll<uint16_t>(sum, parts, count, FromHalf, ToHalf);
    case ncclBfloat16:
      return AddAll<uint16_t>(sum, parts, count, FromBfloat, ToBfloat);
    case ncclFloat64:
      return AddAll<double>(sum, parts, count, same, same);
    case ncclInt32:
      return AddAll<uint32_t>(sum, parts, count, same, same);  // wraps, as repeated sums in place do
    default:
      return AddAll<float>(sum, parts, count, same, same);
  }
}

// What a thread's open group holds.
struct Pair {
  ncclComm* comm;
  cudaStream_t stream;
  std::vector<Part> sends;
  std::vector<Part> receives;
};
thread_local int depth = 0;
thread_local std::vector<Pair> pairs;
thread_local std::vector<ncclComm*> starting;
thread_local std::vector<ncclComm*> touched;

ncclResult_t Flush() {
  for (Pair& pair : pairs) {
    Operation op = {pair.comm, pair.comm->operations++, pair.sends, nullptr,
                    pair.receives.empty() ? nullptr : pair.receives.front().to};
    op.take = [comm = pair.comm, receives = pair.receives] {
      for (const Part& part : receives) std::memcpy(part.to, DataFor(comm, part.peer), part.bytes);
    };
    Enqueue(std::move(op), pair.stream);
  }
  pairs.clear();
  ncclResult_t result = ncclSuccess;
  for (ncclComm* comm : starting) {
    if (!comm->blocking) {
      result = ncclInProgress;
      continue;
    }
    comm->starter.join();
    if (comm->started != ncclSuccess) result = comm->started;
  }
  starting.clear();
  for (ncclComm* comm : touched)
    if (!comm->blocking) {
      comm->launching = true;
      result = ncclInProgress;
    }
  touched.clear();
  return result;
}

Pair& PairOf(ncclComm* comm, cudaStream_t stream) {
  for (Pair& pair : pairs)
    if (pair.comm == comm) return pair;
  pairs.push_back({comm, stream, {}, {}});
  return pairs.back();
}

ncclResult_t Collect(ncclComm* comm, cudaStream_t stream, const void* send, size_t send_bytes, void* output,
                     std::function<void()> take) {
  Enqueue({comm, comm->operations++, {{-1, send, nullptr, send_bytes}}, std::move(take), output}, stream);
  touched.push_back(comm);
  return depth > 0 ? ncclSuccess : Flush();
}

ncclResult_t Start(ncclComm* comm) {
  const int file = open(comm->path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const size_t bytes = sizeof(Slot) * static_cast<size_t>(comm->ranks);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return ncclSystemError;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return ncclSystemError;
  comm->slots = static_cast<Slot*>(memory);
  while (comm->Find("hang_init", 0) && !comm->aborted) std::this_thread::sleep_for(kPoll);
  if (comm->Find("error_init", 0)) return ncclSystemError;
  const char* const network = std::getenv("NCCL_NET");
  if (network != nullptr && std::string(network) != "Socket") return ncclInvalidUsage;
  comm->own().pid = getpid();
  if (!comm->Wait([](Slot& s) { return s.pid != 0; })) return ncclRemoteError;
  Log("Using network Socket");
  Log("Connected all rings, use ring PXN 0 GDR 0");
  return ncclSuccess;
}

ncclResult_t Init(ncclComm_t* out, int ranks, const ncclUniqueId& id, int rank, bool blocking) {
  if (ranks > static_cast<int>(kMaxRanks) || WeftFakeCurrentDevice() < 0) return ncclInvalidArgument;
  const char* const folder = std::getenv("WEFT_FAKE_DIR");
  auto* const comm = new ncclComm;
  comm->path = std::string(folder != nullptr ? folder : "/dev/shm") + "/" + id.internal;
  comm->rank = rank;
  comm->ranks = ranks;
  comm->blocking = blocking;
  comm->faults = Faults();
  comm->error = ncclInProgress;
  *out = comm;
  comm->starter = std::thread([comm] {
    comm->started = Start(comm);
    comm->error = comm->started;
  });
  starting.push_back(comm);
  return depth > 0 ? ncclSuccess : Flush();
}

void Free(ncclComm* comm) {
  if (comm->starter.joinable()) comm->starter.join();
  while (comm->busy > 0) std::this_thread::sleep_for(kPoll);
  delete comm;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = Version();
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t code) {
  switch (code) {
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInvalidUsage:
      return "invalid usage";
    default:
      return "unhandled system error";
  }
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> count{0};
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->internal, sizeof id->internal, "fake-nccl-%d-%d-%lld", getpid(), ++count,
                static_cast<long long>(std::chrono::steady_clock::now().time_since_epoch().count()));
  return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return Init(comm, ranks, id, rank, true);
}
#ifndef WEFT_FAKE_NCCL_OLD
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return Init(comm, ranks, id, rank, config->blocking != 0);
}
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
const char* ncclGetLastError(ncclComm_t) { return ""; }
#endif
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  unlink(comm->path.c_str());
  Free(comm);
  return ncclSuccess;
}
#ifndef WEFT_FAKE_NCCL_BROKEN
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->aborted = true;
  for (const Fault& fault : comm->faults)
    if (fault.kind == "slow_abort" && fault.rank == comm->rank)
      std::this_thread::sleep_for(std::chrono::milliseconds(fault.milliseconds));
  Free(comm);
  return ncclSuccess;
}
#endif
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = static_cast<ncclResult_t>(comm->error.load());
  // A launch is under way for as long as nobody has asked twice.
  if (*error == ncclSuccess && comm->launching.exchange(false)) *error = ncclInProgress;
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() { return --depth > 0 ? ncclSuccess : Flush(); }

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t comm, cudaStream_t stream) {
  return Collect(comm, stream, send, count * BytesOf(type), receive, [=] {
    std::vector<const char*> parts;
    for (int i = 0; i < comm->ranks; ++i) parts.push_back(DataFor(comm, i));
    Add(type, receive, parts, count);
  });
}
ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * BytesOf(type);
  return Collect(comm, stream, send, bytes, receive, [=] {
    for (int i = 0; i < comm->ranks; ++i)
      std::memcpy(static_cast<char*>(receive) + bytes * static_cast<size_t>(i), DataFor(comm, i), bytes);
  });
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * BytesOf(type);
  return Collect(comm, stream, send, bytes * static_cast<size_t>(comm->ranks), receive, [=] {
    std::vector<const char*> parts;
    for (int i = 0; i < comm->ranks; ++i)
      parts.push_back(DataFor(comm, i) + bytes * static_cast<size_t>(comm->rank));
    Add(type, receive, parts, count);
  });
}
ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * BytesOf(type);
  return Collect(comm, stream, send, comm->rank == root ? bytes : 0, receive,
                 [=] { std::memcpy(receive, DataFor(comm, root), bytes); });
}
ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  PairOf(comm, stream).sends.push_back({peer, send, nullptr, count * BytesOf(type)});
  touched.push_back(comm);
  return depth > 0 ? ncclSuccess : Flush();
}
ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  PairOf(comm, stream).receives.push_back({peer, nullptr, receive, count * BytesOf(type)});
  touched.push_back(comm);
  return depth > 0 ? ncclSuccess : Flush();
}

}  // extern "C"
