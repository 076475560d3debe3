#include "profiler/device/cuda/cuda_lanes.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <map>
#include <memory>
#include <mutex>

#include "profiler/base/error.h"
#include "profiler/base/library_message.h"
#include "profiler/device/cuda/cuda_partition.h"

namespace mptune::profiler {

namespace {

/// Lanes of devices that are gone. Never freed: tensors and the allocator's blocks of these streams may outlive every device.
struct Idle {
  std::mutex mutex;
  std::multimap<std::string, CudaLanes*> by_name;
};
Idle& idle() {
  static Idle& all = *new Idle;
  return all;
}

CudaLanes* take_idle(const std::string& name) {
  const std::lock_guard lock(idle().mutex);
  auto found = idle().by_name.extract(name);
  return found ? found.mapped() : nullptr;
}

void return_lanes(CudaLanes* lanes) {
  const std::lock_guard lock(idle().mutex);
  idle().by_name.emplace(lanes->spec.name, lanes);
}

CudaLanes* make_lanes(const DeviceSpec& spec) {
  if (!at::detail::getCUDAHooks().hasCUDART())
    throw Error("LibTorch was used before mptune prepared CUDA, and found no CUDA then", spec.name,
                "call mptune::prepare_gpus() first thing in main", ExitCode::environment);
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  const auto gpu = static_cast<c10::DeviceIndex>(spec.index);
  const c10::cuda::CUDAGuard guard(gpu);
  C10_CUDA_CHECK(cudaFree(nullptr));  // creates the primary context
  cudaDeviceProp properties{};
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, spec.index));
  const GpuPart part = make_gpu_part(spec);
  const auto stream = [&](std::size_t i) { return c10::cuda::getStreamFromExternal(part.streams[i], gpu); };
  std::string name = std::string(properties.name) + ", " + std::to_string(part.sms) + " SMs";
  if (spec.parts > 1) name += " of " + std::to_string(properties.multiProcessorCount);
  auto* lanes = new CudaLanes{spec,      std::move(name), part.sms,  static_cast<std::int64_t>(properties.totalGlobalMem),
                              stream(0), stream(1),       stream(2), CudaAccount(spec.name)};
  for (const auto& each : {lanes->compute, lanes->copy_in, lanes->copy_out}) charge_stream(each, lanes->account);
  return lanes;
}

}  // namespace

std::shared_ptr<CudaLanes> take_cuda_lanes(const DeviceSpec& spec) {
  CudaLanes* lanes = take_idle(spec.name);
  try {
    if (lanes == nullptr) lanes = make_lanes(spec);
  } catch (const c10::Error& error) {
    throw Error("the GPU can't be used: " + library_message(error.what_without_backtrace()), spec.name,
                "see nvidia-smi, or name CPU devices", ExitCode::environment);
  }
  lanes->account.begin_anew();
  return {lanes, return_lanes};
}

}  // namespace mptune::profiler
