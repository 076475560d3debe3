#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include "mptune/profiler/device/cuda_memory.h"

namespace mptune {

/// Whose memory a stream's is; null: nobody's.
[[nodiscard]] CudaAccount* account_of(c10::DeviceIndex gpu, cudaStream_t stream);
/// The account of the calling thread's stream of a GPU.
[[nodiscard]] CudaAccount* current_account(c10::DeviceIndex gpu);

/// From now on an allocation that would exceed its account's cap is refused before LibTorch's allocator is asked. Process-wide; LibTorch's
/// allocator stays in charge of everything else. Does nothing when called again.
void enforce_caps();

}  // namespace mptune
