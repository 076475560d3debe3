#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/emulation/machine/attributes.h"
#include "tests/emulation/machine/calls.h"
#include "tests/emulation/machine/entry_point.h"
#include "tests/emulation/machine/events.h"
#include "tests/emulation/runtime/operators.h"
#include "tests/emulation/runtime/runtime_call.h"

using namespace emulation;

namespace emulation {

Status RuntimeCall::ready() {
  if (const Status status = initialise_driver()) return status;
  activate_primary(current_gpu());
  return sticky_error(current_gpu());
}

namespace {

int value_of(CUdevice_attribute attribute, int gpu) {
  return attribute_of(attribute, gpu).value_or(0);
}

void describe_blocks(cudaDeviceProp& properties, int gpu) {
  properties.warpSize = value_of(CU_DEVICE_ATTRIBUTE_WARP_SIZE, gpu);
  properties.maxThreadsPerBlock = value_of(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, gpu);
  for (int i = 0; i < 3; ++i) {
    properties.maxThreadsDim[i] = value_of(static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i), gpu);
    properties.maxGridSize[i] = value_of(static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i), gpu);
  }
  properties.regsPerBlock = value_of(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, gpu);
  properties.sharedMemPerBlock = static_cast<std::size_t>(value_of(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, gpu));
  properties.sharedMemPerBlockOptin = static_cast<std::size_t>(value_of(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, gpu));
  properties.reservedSharedMemPerBlock = static_cast<std::size_t>(value_of(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, gpu));
  properties.totalConstMem = static_cast<std::size_t>(value_of(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, gpu));
}

void describe_multiprocessors(cudaDeviceProp& properties, int gpu) {
  properties.major = value_of(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, gpu);
  properties.minor = value_of(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, gpu);
  properties.multiProcessorCount = multiprocessors();
  properties.maxThreadsPerMultiProcessor = value_of(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, gpu);
  properties.maxBlocksPerMultiProcessor = value_of(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, gpu);
  properties.regsPerMultiprocessor = value_of(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, gpu);
  properties.sharedMemPerMultiprocessor = static_cast<std::size_t>(value_of(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, gpu));
  properties.concurrentKernels = 1;
  properties.streamPrioritiesSupported = 1;
  properties.computePreemptionSupported = 1;
}

void describe_memory(cudaDeviceProp& properties, int gpu) {
  properties.totalGlobalMem = memory_bytes();
  properties.memoryBusWidth = value_of(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, gpu);
  properties.l2CacheSize = value_of(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, gpu);
  properties.memPitch = static_cast<std::size_t>(value_of(CU_DEVICE_ATTRIBUTE_MAX_PITCH, gpu));
  properties.textureAlignment = static_cast<std::size_t>(value_of(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, gpu));
  properties.surfaceAlignment = static_cast<std::size_t>(value_of(CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, gpu));
  properties.unifiedAddressing = 1;
  properties.canMapHostMemory = 1;
  properties.canUseHostPointerForRegisteredMem = 1;
  properties.hostRegisterSupported = 1;
  properties.asyncEngineCount = value_of(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, gpu);
  properties.hostNumaId = -1;
}

}  // namespace

}  // namespace emulation

EMULATED_RUNTIME_FUNCTION cudaGetDeviceCount(int* count) {
  EMULATED_RUNTIME_CALL(cudaGetDeviceCount_v3020);
  *count = gpu_count();
  return call.end(initialise_driver());
}

EMULATED_RUNTIME_FUNCTION cudaGetDevice(int* gpu) {
  EMULATED_RUNTIME_CALL(cudaGetDevice_v3020);
  if (const Status status = initialise_driver()) return call.end(status);
  *gpu = current_gpu();
  return call.end(kSuccess);
}

EMULATED_RUNTIME_FUNCTION cudaSetDevice(int gpu) {
  EMULATED_RUNTIME_CALL(cudaSetDevice_v3020);
  if (const Status status = initialise_driver()) return call.end(status);
  open_operators();
  return call.end(set_current_gpu(gpu));
}

EMULATED_RUNTIME_FUNCTION cudaGetDeviceProperties(cudaDeviceProp* properties, int gpu) {
  EMULATED_RUNTIME_CALL(cudaGetDeviceProperties_v12000);
  if (const Status status = initialise_driver()) return call.end(status);
  if (!is_gpu(gpu)) return call.end(kInvalidDevice);
  open_operators();
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "%s", gpu_name(gpu).c_str());
  properties->uuid.bytes[0] = static_cast<char>(machine_gpu(gpu) + 1);
  properties->pciBusID = value_of(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, gpu);
  describe_blocks(*properties, gpu);
  describe_multiprocessors(*properties, gpu);
  describe_memory(*properties, gpu);
  return call.end(kSuccess);
}

EMULATED_RUNTIME_FUNCTION cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int gpu) {
  EMULATED_RUNTIME_CALL(cudaDeviceGetAttribute_v5000);
  if (const Status status = initialise_driver()) return call.end(status);
  if (!is_gpu(gpu)) return call.end(kInvalidDevice);
  const std::optional<int> found = attribute_of(attribute, gpu);
  if (!found) return call.end(kInvalidValue);
  *value = *found;
  return call.end(kSuccess);
}

EMULATED_RUNTIME_FUNCTION cudaDeviceGetPCIBusId(char* name, int size, int gpu) {
  EMULATED_RUNTIME_CALL(cudaDeviceGetPCIBusId_v4010);
  if (!is_gpu(gpu)) return call.end(kInvalidDevice);
  std::snprintf(name, static_cast<std::size_t>(size), "%s", bus_name(gpu).c_str());
  return call.end(kSuccess);
}

EMULATED_RUNTIME_FUNCTION cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaDeviceGetStreamPriorityRange_v5050);
  if (least != nullptr) *least = kLeastPriority;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return call.end(kSuccess);
}

EMULATED_RUNTIME_FUNCTION cudaDeviceCanAccessPeer(int* reaches, int gpu, int other) {
  EMULATED_RUNTIME_CALL(cudaDeviceCanAccessPeer_v4000);
  if (!is_gpu(gpu) || !is_gpu(other)) return call.end(kInvalidDevice);
  *reaches = can_reach(gpu, other) ? 1 : 0;
  return call.end(kSuccess);
}

EMULATED_RUNTIME_FUNCTION cudaDeviceEnablePeerAccess(int other, unsigned) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaDeviceEnablePeerAccess_v4000);
  return call.end(is_gpu(other) ? enable_peer(current_gpu(), other) : kInvalidDevice);
}

EMULATED_RUNTIME_FUNCTION cudaDeviceDisablePeerAccess(int other) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaDeviceDisablePeerAccess_v4000);
  return call.end(is_gpu(other) ? disable_peer(current_gpu(), other) : kInvalidDevice);
}

EMULATED_RUNTIME_FUNCTION cudaDeviceSynchronize() {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaDeviceSynchronize_v3020);
  return call.end(host_waits_for_gpu(current_gpu()));
}

EMULATED_RUNTIME_FUNCTION cudaDriverGetVersion(int* version) {
  *version = kCudaVersion;
  return cudaSuccess;
}

EMULATED_RUNTIME_FUNCTION cudaRuntimeGetVersion(int* version) {
  *version = kCudaVersion;
  return cudaSuccess;
}

EMULATED_RUNTIME_FUNCTION cudaGetLastError() {
  return static_cast<cudaError_t>(last_error(true));
}

EMULATED_RUNTIME_FUNCTION cudaPeekAtLastError() {
  return static_cast<cudaError_t>(last_error(false));
}

extern "C" EMULATION_EXPORT const char* cudaGetErrorName(cudaError_t status) {
  return name_of(status).runtime;
}

extern "C" EMULATION_EXPORT const char* cudaGetErrorString(cudaError_t status) {
  return name_of(status).text;
}

EMULATED_RUNTIME_FUNCTION cudaProfilerStart() {
  return cudaSuccess;
}

EMULATED_RUNTIME_FUNCTION cudaProfilerStop() {
  return cudaSuccess;
}

EMULATED_RUNTIME_FUNCTION cudaGetDriverEntryPointByVersion(const char* name, void** found, unsigned, unsigned long long,
                                                           cudaDriverEntryPointQueryResult* result) {
  EMULATED_RUNTIME_CALL(cudaGetDriverEntryPointByVersion_v12050);
  *found = driver_function(name);
  if (result != nullptr) *result = *found == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return call.end(kSuccess);
}
