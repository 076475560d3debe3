#pragma once

/// What every function of the runtime's API begins and ends with.

#include <cuda.h>
#include <cuda_runtime_api.h>
// Names of the calls need both headers of CUDA.
#include <cupti_runtime_cbid.h>

#include "tests/emulation/machine/gpus.h"
#include "tests/emulation/machine/machine.h"
#include "tests/emulation/machine/status.h"

/// `name` is CUPTI's, as in cudaMalloc_v3020.
#define EMULATED_RUNTIME_CALL(name) const emulation::RuntimeCall call(CUPTI_RUNTIME_TRACE_CBID_##name)
#define EMULATED_RUNTIME_FUNCTION extern "C" EMULATION_EXPORT cudaError_t CUDARTAPI

namespace emulation {

class RuntimeCall {
 public:
  explicit RuntimeCall(int id) : call_(Domain::runtime, id) {}
  [[nodiscard]] cudaError_t end(Status status) const { return static_cast<cudaError_t>(call_.end(status)); }

  /// The error of a machine without GPUs, or the one of the current GPU that stays. Makes the current GPU's context.
  [[nodiscard]] static Status ready();

 private:
  mutable ApiCall call_;
};

/// Begins a function that needs a working GPU.
#define EMULATED_RUNTIME_CALL_ON_GPU(name) \
  EMULATED_RUNTIME_CALL(name);             \
  if (const emulation::Status not_ready = emulation::RuntimeCall::ready(); not_ready != emulation::kSuccess) return call.end(not_ready)

}  // namespace emulation
