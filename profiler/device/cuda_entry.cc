#include "mptune/profiler/device/cuda_entry.h"

#include <string_view>

#include "mptune/profiler/device/cuda_copier.h"
#include "mptune/profiler/device/cuda_device.h"

const mptune::GpuLibrary* mptune_cuda_entry(const char* build) {
  static constexpr mptune::GpuLibrary kTable{mptune::make_cuda_device, mptune::make_cuda_copier, mptune::gpus_reach};
  return std::string_view(build) == mptune::kGpuLibraryBuild ? &kTable : nullptr;
}
