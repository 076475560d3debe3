#include "tests/emulation/machine/status.h"

#include <algorithm>
#include <iterator>

namespace emulation {

namespace {

constexpr StatusName kNames[] = {
    {kSuccess, "cudaSuccess", "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "cudaErrorInvalidValue", "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialized, "cudaErrorInitializationError", "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {kInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "CUDA_ERROR_INVALID_VALUE", "invalid copy direction for memcpy"},
    {kInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "CUDA_ERROR_NOT_FOUND", "invalid device function"},
    {kNoDevice, "cudaErrorNoDevice", "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kInvalidDevice, "cudaErrorInvalidDevice", "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidImage, "cudaErrorInvalidKernelImage", "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {kInvalidContext, "cudaErrorDeviceUninitialized", "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported", "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {kInvalidHandle, "cudaErrorInvalidResourceHandle", "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kSymbolNotFound, "cudaErrorSymbolNotFound", "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kNotReady, "cudaErrorNotReady", "CUDA_ERROR_NOT_READY", "device not ready"},
    {kIllegalAddress, "cudaErrorIllegalAddress", "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {kPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled", "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
     "peer access is already enabled"},
    {kPeerAccessNotEnabled, "cudaErrorPeerAccessNotEnabled", "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"},
    {kAssert, "cudaErrorAssert", "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {kHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered", "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {kHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered", "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {kLaunchFailure, "cudaErrorLaunchFailure", "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {kNotSupported, "cudaErrorNotSupported", "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {kInvalidResourceType, "cudaErrorInvalidResourceType", "CUDA_ERROR_INVALID_RESOURCE_TYPE", "invalid resource type"},
    {kUnknown, "cudaErrorUnknown", "CUDA_ERROR_UNKNOWN", "unknown error"},
};

}  // namespace

const StatusName& name_of(Status status) {
  const auto* found = std::find_if(std::begin(kNames), std::end(kNames), [&](const StatusName& name) { return name.status == status; });
  return found == std::end(kNames) ? *(std::end(kNames) - 1) : *found;
}

}  // namespace emulation
