#include "profiler/base/error.h"
#include "profiler/trace/collect/gpu_collector.h"

namespace mptune::profiler {

void require_gpu_collector() {
  throw Error("this build cannot record GPUs", "CUPTI", "build with the headers of CUPTI 13 (a CUDA 13 toolkit; MPTUNE_CUDA=ON)",
              ExitCode::environment);
}

std::unique_ptr<GpuCollector> make_gpu_collector(std::vector<TraceDevice>) {
  require_gpu_collector();
  return nullptr;
}

}  // namespace mptune::profiler
