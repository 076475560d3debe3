#include "tests/emulation/cupti/devices.h"

#include <cuda.h>
#include <cupti.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "tests/emulation/cupti/buffers.h"
#include "tests/emulation/cupti/switches.h"
#include "tests/emulation/machine/machine.h"

namespace emulation::cupti {

namespace {

std::atomic<bool> due = false;

std::uint32_t device_attribute(CUdevice device, CUdevice_attribute which) {
  int value = 0;
  return cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? static_cast<std::uint32_t>(value) : 0;
}

// Its reader may free it.
const char* name_of(CUdevice device) {
  std::array<char, 256> name{};
  (void)cuDeviceGetName(name.data(), static_cast<int>(name.size()), device);
  return strdup(name.data());
}

CUpti_ActivityDevice5 device_record(CUdevice device) {
  CUpti_ActivityDevice5 record{};
  std::size_t bytes = 0;
  (void)cuDeviceTotalMem(&bytes, device);
  record.kind = CUPTI_ACTIVITY_KIND_DEVICE;
  record.flags = CUPTI_ACTIVITY_FLAG_DEVICE_CONCURRENT_KERNELS;
  record.id = static_cast<std::uint32_t>(device);
  record.name = name_of(device);
  record.globalMemorySize = bytes;
  record.numMultiprocessors = device_attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  record.numThreadsPerWarp = device_attribute(device, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  record.maxThreadsPerBlock = device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  record.computeCapabilityMajor = device_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  record.computeCapabilityMinor = device_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  record.isCudaVisible = 1;
  return record;
}

}  // namespace

void write_devices() {
  const ApiCall unobserved(Domain::driver, 0);  // the calls below are not the program's
  int count = 0;
  (void)cuDeviceGetCount(&count);
  for (CUdevice device = 0; device < count; ++device) buffers().write(device_record(device));
}

void expect_devices() {
  due = true;
}

void write_due_devices() {
  if (due.exchange(false) && switches().records(CUPTI_ACTIVITY_KIND_DEVICE)) write_devices();
}

}  // namespace emulation::cupti
