#pragma once

#include <cuda_runtime_api.h>

#include <array>

#include "mptune/profiler/base/device_spec.h"

namespace mptune {

/// A whole GPU or a part of its multiprocessors, and streams whose kernels run on these alone.
struct GpuPart {
  int sms = 0;  ///< as the driver gave them
  std::array<cudaStream_t, 3> streams{};
};

/// Makes non-blocking streams on the GPU of `spec`, in a green context of the driver for a part. They live until the process ends, as do
/// the division of the GPU and its green contexts. The calling thread's GPU must be that of `spec`, with its primary context; that stays
/// current. Thread-safe. Throws Error (environment): a driver without green contexts, a GPU with too few multiprocessors.
[[nodiscard]] GpuPart make_gpu_part(const DeviceSpec& spec);

}  // namespace mptune
