#include "profiler/device/list/gpu_driver.h"

#include <dlfcn.h>

namespace mptune::profiler {

namespace {

GpuDriver ask_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return {0, "no NVIDIA driver is loaded"};
  // Declared here because this module is built without CUDA's headers.
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDeviceGetCount"));
  const auto name_of = reinterpret_cast<int (*)(int, const char**)>(dlsym(library, "cuGetErrorName"));
  if (init == nullptr || count == nullptr) return {0, "libcuda.so.1 is not an NVIDIA driver"};
  GpuDriver driver;
  int status = init(0);
  if (status == 0) status = count(&driver.gpus);
  if (status != 0) {
    const char* name = nullptr;
    const bool named = name_of != nullptr && name_of(status, &name) == 0 && name != nullptr;
    return {0, "the NVIDIA driver can't be used (" + (named ? std::string(name) : "error " + std::to_string(status)) + ")"};
  }
  if (driver.gpus == 0) driver.problem = "the NVIDIA driver has no GPU for this process";
  return driver;
}

}  // namespace

const GpuDriver& gpu_driver() {
  static const GpuDriver driver = ask_driver();
  return driver;
}

}  // namespace mptune::profiler
