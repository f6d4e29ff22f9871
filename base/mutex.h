// std::mutex and std::condition_variable with Clang's thread-safety annotations. Packaged Abseil's Mutex
// reports false races under ThreadSanitizer, which would make that preset useless.
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define WEFT_TS(x) __attribute__((x))
#else
#define WEFT_TS(x)
#endif

#define WEFT_GUARDED_BY(m) WEFT_TS(guarded_by(m))
#define WEFT_REQUIRES(m) WEFT_TS(requires_capability(m))
#define WEFT_EXCLUDES(m) WEFT_TS(locks_excluded(m))

namespace weft {

class WEFT_TS(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void Lock() WEFT_TS(acquire_capability()) { mutex_.lock(); }
  void Unlock() WEFT_TS(release_capability()) { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class WEFT_TS(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) WEFT_TS(acquire_capability(mutex)) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() WEFT_TS(release_capability()) { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits may return early; call them in a loop that checks the condition.
class CondVar {
 public:
  void Wait(Mutex& mutex) WEFT_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    cv_.wait(lock);
    lock.release();
  }
  template <typename Duration>
  void WaitFor(Mutex& mutex, Duration duration) WEFT_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    // wait_until on the system clock would follow wall-clock steps, and ThreadSanitizer of GCC 12 does not
    // know pthread_cond_clockwait; a bounded system-clock wait in a loop is right on both counts.
    cv_.wait_until(lock, std::chrono::system_clock::now() +
                             std::chrono::duration_cast<std::chrono::system_clock::duration>(duration));
    lock.release();
  }
  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace weft
