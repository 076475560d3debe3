#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include "profiler/device/cuda/cuda_memory.h"

namespace mptune::profiler {

/// Returns the account that a stream's memory is charged to; null: none.
[[nodiscard]] CudaAccount* account_of(c10::DeviceIndex gpu, cudaStream_t stream);
/// Returns the account of the calling thread's stream of a GPU.
[[nodiscard]] CudaAccount* current_account(c10::DeviceIndex gpu);

/// From now on, allocations beyond their account's cap fail before LibTorch's allocator is called, and before any allocation fails, the
/// memory that the account's MemoryShortage can free is freed. Process-wide; further calls do nothing.
void watch_allocations();

}  // namespace mptune::profiler
