#include "profiler/device/cuda/cuda_entry.h"

#include <string_view>

#include "profiler/device/cuda/cuda_copier.h"
#include "profiler/device/cuda/cuda_device.h"
#include "profiler/device/cuda/cuda_kernels.h"
#include "profiler/device/cuda/nccl_connector.h"

const mptune::profiler::GpuLibrary* mptune_cuda_entry(const char* build) {
  static constexpr mptune::profiler::GpuLibrary kTable{mptune::profiler::make_cuda_device, mptune::profiler::make_cuda_copier,
                                                       mptune::profiler::gpus_reach, mptune::profiler::launch_kernel,
                                                       mptune::profiler::make_nccl_connector};
  return std::string_view(build) == mptune::profiler::kGpuLibraryBuild ? &kTable : nullptr;
}
