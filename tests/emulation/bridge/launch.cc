#include "tests/emulation/bridge/launch.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
// Names of the calls need both headers of CUDA.
#include <cupti_runtime_cbid.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "tests/emulation/bridge/host_arguments.h"
#include "tests/emulation/bridge/kernel_thread.h"

namespace emulation {

namespace {

constexpr std::uint32_t kThreads = 128;
constexpr std::int64_t kElementsPerBlock = 4 * kThreads;

/// The machine shows what a kernel throws: without LibTorch's stack of the stream's thread.
void run_or_tell(const std::function<void()>& compute) {
  try {
    run_as_kernel(compute);
  } catch (const c10::Error& error) {
    throw std::runtime_error(error.what_without_backtrace());
  }
}

Work work_of(Kernel kernel) {
  Work work;
  work.kind = WorkKind::kernel;
  work.name = kernel.name;
  work.flops = kernel.flops;
  work.bytes = kernel.bytes;
  work.blocks[0] =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>((kernel.elements + kElementsPerBlock - 1) / kElementsPerBlock, 1, 1 << 30));
  work.threads[0] = kThreads;
  work.uses = std::move(kernel.uses);
  work.compute = [compute = std::move(kernel.compute)] { run_or_tell(compute); };
  return work;
}

}  // namespace

void add_use(Kernel& kernel, const at::Tensor& tensor, bool written) {
  const Extent extent = extent_of(tensor);
  if (extent.bytes == 0) return;
  kernel.uses.push_back({extent.begin, extent.bytes, written});
  kernel.bytes += static_cast<double>(tensor.nbytes());
  kernel.elements = std::max(kernel.elements, tensor.numel());
}

void launch(Kernel kernel) {
  Stream* stream = stream_of(c10::cuda::getCurrentCUDAStream().stream());
  TORCH_CHECK(stream != nullptr, "the current stream is none of the emulated machine");
  ApiCall call(Domain::runtime, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
  const Status status = call.end(submit(*stream, work_of(std::move(kernel))));
  C10_CUDA_CHECK(static_cast<cudaError_t>(status));
}

}  // namespace emulation
