#include "profiler/device/gpu_communicator.h"

#include "profiler/device/gpu_library.h"

namespace mptune::profiler {

const GpuConnector* nccl_connector() {
  const GpuLibrary* library = opened_gpu_library();
  return library != nullptr ? &library->connector() : nullptr;
}

}  // namespace mptune::profiler
