#pragma once

#include <ATen/Parallel.h>

namespace mptune::profiler {

/// The calling thread uses `count` intra-op threads from now on, whatever other threads set. Call it first thing in a thread.
inline void fix_thread_count(int count) {
  // The first query or parallel region of a thread takes over what the process set last; only then does its own setting stay.
  (void)at::get_num_threads();
  at::set_num_threads(count);
}

/// Ends the threads that the calling thread keeps for its next parallel region, which will start new ones (some 50 us each).
/// Does nothing if LibTorch does not use GNU's OpenMP.
void end_idle_parallel_threads();

}  // namespace mptune::profiler
