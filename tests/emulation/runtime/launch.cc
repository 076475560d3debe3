#include <cstddef>
#include <vector>

#include "tests/emulation/runtime/kernels.h"
#include "tests/emulation/runtime/runtime_call.h"

using namespace emulation;

namespace {

/// What <<<...>>> says, until the launch takes it.
struct Configuration {
  dim3 blocks, threads;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

thread_local std::vector<Configuration> configurations;

Launch launch_of(dim3 blocks, dim3 threads, void** arguments) {
  return {{blocks.x, blocks.y, blocks.z}, {threads.x, threads.y, threads.z}, arguments};
}

}  // namespace

EMULATED_RUNTIME_FUNCTION cudaLaunchKernel(const void* function, dim3 blocks, dim3 threads, void** arguments, std::size_t,
                                           cudaStream_t stream) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaLaunchKernel_v7000);
  return call.end(launch(function, launch_of(blocks, threads, arguments), stream));
}

EMULATED_RUNTIME_FUNCTION cudaLaunchKernelExC(const cudaLaunchConfig_t* configuration, const void* function, void** arguments) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaLaunchKernelExC_v11060);
  return call.end(launch(function, launch_of(configuration->gridDim, configuration->blockDim, arguments), configuration->stream));
}

EMULATED_RUNTIME_FUNCTION __cudaLaunchKernel(cudaKernel_t kernel, dim3 blocks, dim3 threads, void** arguments, std::size_t,
                                             cudaStream_t stream) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaLaunchKernel_v7000);
  return call.end(launch(kernel, launch_of(blocks, threads, arguments), stream));
}

EMULATED_RUNTIME_FUNCTION __cudaGetKernel(cudaKernel_t* handle, const void* function) {
  *handle = reinterpret_cast<cudaKernel_t>(kernel_of(function));
  return *handle == nullptr ? cudaErrorInvalidDeviceFunction : cudaSuccess;
}

EMULATED_RUNTIME_FUNCTION cudaGetKernel(cudaKernel_t* handle, const void* function) {
  return __cudaGetKernel(handle, function);
}

EMULATED_RUNTIME_FUNCTION cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaFuncGetAttributes_v3020);
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  return call.end(kSuccess);
}

EMULATED_RUNTIME_FUNCTION cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaFuncSetAttribute_v9000);
  return call.end(kSuccess);
}

extern "C" EMULATION_EXPORT unsigned __cudaPushCallConfiguration(dim3 blocks, dim3 threads, std::size_t shared_bytes, void* stream) {
  configurations.push_back({blocks, threads, shared_bytes, static_cast<cudaStream_t>(stream)});
  return 0;
}

EMULATED_RUNTIME_FUNCTION __cudaPopCallConfiguration(dim3* blocks, dim3* threads, std::size_t* shared_bytes, void* stream) {
  if (configurations.empty()) return cudaErrorInvalidConfiguration;
  const Configuration& last = configurations.back();
  *blocks = last.blocks;
  *threads = last.threads;
  *shared_bytes = last.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  configurations.pop_back();
  return cudaSuccess;
}

extern "C" EMULATION_EXPORT void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}

extern "C" EMULATION_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}

extern "C" EMULATION_EXPORT void __cudaUnregisterFatBinary(void**) {}

extern "C" EMULATION_EXPORT char __cudaInitModule(void**) {
  return 0;
}

extern "C" EMULATION_EXPORT void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}

extern "C" EMULATION_EXPORT void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, uint3*, uint3*, dim3*,
                                                        dim3*, int*) {
  add_host_function(function, name);
}
