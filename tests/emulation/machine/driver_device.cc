#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/emulation/machine/attributes.h"
#include "tests/emulation/machine/driver_call.h"

using namespace emulation;

EMULATED_DRIVER_FUNCTION cuInit(unsigned) {
  EMULATED_DRIVER_CALL(cuInit);
  return call.end(initialise_driver());
}

EMULATED_DRIVER_FUNCTION cuDriverGetVersion(int* version) {
  *version = kCudaVersion;
  return CUDA_SUCCESS;
}

EMULATED_DRIVER_FUNCTION cuDeviceGetCount(int* count) {
  EMULATED_DRIVER_CALL(cuDeviceGetCount);
  *count = gpu_count();
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuDeviceGet(CUdevice* device, int gpu) {
  EMULATED_DRIVER_CALL(cuDeviceGet);
  if (!is_gpu(gpu)) return call.end(kInvalidDevice);
  *device = gpu;
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuDeviceGetName(char* name, int size, CUdevice gpu) {
  EMULATED_DRIVER_CALL(cuDeviceGetName);
  if (!is_gpu(gpu)) return call.end(kInvalidDevice);
  std::snprintf(name, static_cast<std::size_t>(size), "%s", gpu_name(gpu).c_str());
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuDeviceGetUuid(CUuuid* uuid, CUdevice gpu) {
  EMULATED_DRIVER_CALL(cuDeviceGetUuid);
  if (!is_gpu(gpu)) return call.end(kInvalidDevice);
  std::memset(uuid->bytes, 0, sizeof uuid->bytes);
  uuid->bytes[0] = static_cast<char>(machine_gpu(gpu) + 1);
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuDeviceTotalMem(std::size_t* bytes, CUdevice gpu) {
  EMULATED_DRIVER_CALL(cuDeviceTotalMem);
  if (!is_gpu(gpu)) return call.end(kInvalidDevice);
  *bytes = memory_bytes();
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice gpu) {
  EMULATED_DRIVER_CALL(cuDeviceGetAttribute);
  if (!is_gpu(gpu)) return call.end(kInvalidDevice);
  const std::optional<int> found = attribute_of(attribute, gpu);
  if (!found) return call.end(kInvalidValue);
  *value = *found;
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuDeviceGetPCIBusId(char* name, int size, CUdevice gpu) {
  EMULATED_DRIVER_CALL(cuDeviceGetPCIBusId);
  if (!is_gpu(gpu)) return call.end(kInvalidDevice);
  std::snprintf(name, static_cast<std::size_t>(size), "%s", bus_name(gpu).c_str());
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuDeviceCanAccessPeer(int* reaches, CUdevice gpu, CUdevice other) {
  EMULATED_DRIVER_CALL(cuDeviceCanAccessPeer);
  if (!is_gpu(gpu) || !is_gpu(other)) return call.end(kInvalidDevice);
  *reaches = can_reach(gpu, other) ? 1 : 0;
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuGetErrorName(CUresult status, const char** name) {
  *name = name_of(status).driver;
  return CUDA_SUCCESS;
}

EMULATED_DRIVER_FUNCTION cuGetErrorString(CUresult status, const char** text) {
  *text = name_of(status).text;
  return CUDA_SUCCESS;
}
