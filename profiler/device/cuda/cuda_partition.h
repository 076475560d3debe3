#pragma once

#include <cuda_runtime_api.h>

#include <array>

#include "profiler/base/device_spec.h"

namespace mptune::profiler {

/// A whole GPU or a part of its multiprocessors, with streams whose kernels run only there.
struct GpuPart {
  int sms = 0;  ///< number of multiprocessors, as the driver reports it
  std::array<cudaStream_t, 3> streams{};
};

/// Makes non-blocking streams on the GPU of `spec`; those for a part are in a green context. Streams, contexts and divisions of the GPU
/// live until the process ends. Parts of two divisions, such as a half and a third, share multiprocessors: whoever makes both must use one
/// at a time. Requires: the calling thread's current context is the primary context of that GPU; it stays current. Thread-safe. Throws
/// Error (environment) if the driver has no green contexts or the GPU has too few multiprocessors.
[[nodiscard]] GpuPart make_gpu_part(const DeviceSpec& spec);

}  // namespace mptune::profiler
