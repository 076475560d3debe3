#include "profiler/device/cuda/cuda_sources.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include <utility>

#include "profiler/device/cuda/cuda_moment.h"

namespace mptune::profiler {

at::Tensor CudaSources::packed(const at::Tensor& tensor) {
  if (!tensor.is_cuda()) return reading_.emplace_back(tensor.contiguous());
  const c10::cuda::CUDAStreamGuard guard(stream_);
  tensor.record_stream(stream_);
  // LibTorch's allocator knows its own memory only, so a communication buffer that is sent on is held here.
  if (tensor.storage().data_ptr().get_deleter() != c10::cuda::CUDACachingAllocator::get()->raw_deleter()) reading_.push_back(tensor);
  return tensor.contiguous();
}

void CudaSources::handed_over() {
  std::erase_if(kept_, [](const Kept& kept) { return reached(kept.read); });
  if (!reading_.empty()) kept_.push_back({std::exchange(reading_, {}), now_on(stream_)});
}

}  // namespace mptune::profiler
