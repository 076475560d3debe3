#pragma once

/// What processes share that run on one emulated machine (EMULATED_MACHINE, a name): used memory, multiprocessors and copy engines. Without
/// a name a process has a machine of its own. Processes may end at any time: their memory and engines are free again.

#include <pthread.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "tests/emulation/machine/machine.h"

namespace emulation {

inline constexpr int kMostGpus = 16;
inline constexpr int kMostMultiprocessors = 256;
inline constexpr int kMostProcesses = 64;
inline constexpr int kMostRequests = 256;

/// The units of a GPU that work occupies: multiprocessors, and a copy engine each way.
inline constexpr int kCopyIn = kMostMultiprocessors;
inline constexpr int kCopyOut = kCopyIn + 1;
inline constexpr int kCopyWithin = kCopyIn + 2;
inline constexpr int kCopyToGpu = kCopyIn + 3;  ///< + the other GPU
inline constexpr int kUnits = kCopyToGpu + kMostGpus;

struct SharedProcess {
  pid_t process;          ///< 0: unused
  std::uint64_t started;  ///< tells two processes of one number apart
  std::uint64_t used[kMostGpus];
};

/// Work that occupies units, or waits for them.
struct SharedRequest {
  pid_t process;  ///< 0: unused
  int first, count;
  int priority;  ///< smaller is first
  std::uint64_t ticket;
  bool granted;
};

struct SharedGpu {
  std::uint32_t changes;  ///< a futex: counts releases
  std::uint64_t tickets;
  SharedRequest requests[kMostRequests];
  Nanoseconds free_at[kUnits];
};

struct SharedState {
  pthread_mutex_t mutex;
  bool initialised;
  SharedProcess processes[kMostProcesses];
  SharedGpu gpus[kMostGpus];
};

/// The state, locked. A lock that a dead process held is taken over.
class SharedLock {
 public:
  SharedLock();
  ~SharedLock();
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;
  SharedState* operator->() const { return &state_; }
  /// Frees what dead processes hold.
  void forget_dead_processes() const;

 private:
  SharedState& state_;
};

/// Frees what this process has; the last process removes the machine. For the end of the process.
void leave_shared_machine();

/// Adds to this process's memory of a GPU, unless all processes would have more than `limit` then.
[[nodiscard]] bool take_memory(int gpu, std::uint64_t bytes, std::uint64_t limit);
void give_memory(int gpu, std::uint64_t bytes);
/// Of all processes.
[[nodiscard]] std::uint64_t used_memory(int gpu);

}  // namespace emulation
