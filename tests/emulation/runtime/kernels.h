#pragma once

/// Kernels by the host's pointers and by the handles of CUDA 13.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <string_view>

#include "tests/emulation/machine/machine.h"

namespace emulation {

struct Launch {
  std::uint32_t blocks[3] = {1, 1, 1};
  std::uint32_t threads[3] = {1, 1, 1};
  void** arguments = nullptr;  ///< an address for each parameter, valid during the call only
};

/// Puts what the kernel does into the work, with copies of the launch's arguments.
using PrepareKernel = std::function<void(const Launch&, Work&)>;

/// A cudaKernel_t. Kernels are never deleted.
struct Kernel {
  const char* name = "";  ///< as people write it
  PrepareKernel prepare;  ///< empty: not emulated
};

[[nodiscard]] Kernel* add_kernel(std::string_view name, PrepareKernel prepare);
/// For __cudaRegisterFunction, which gives mangled names.
void add_host_function(const void* function, const char* mangled_name);
/// Of a host's pointer, or a handle. Null if it is neither.
[[nodiscard]] Kernel* kernel_of(const void* function_or_handle);

/// What a kernel of a program does that was compiled for real GPUs, by its name; empty: nobody emulated it.
[[nodiscard]] PrepareKernel known_kernel(std::string_view name);

/// Enqueues. kInvalidDeviceFunction where the kernel is not emulated, which is said once.
Status launch(const void* function_or_handle, const Launch& launch, cudaStream_t stream);

}  // namespace emulation
