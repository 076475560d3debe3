#pragma once

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>

#include <vector>

#include "profiler/device/moment.h"

namespace mptune::profiler {

/// Tensors that a stream reads to send or copy them; they live until they have been read. One thread at a time.
class CudaSources {
 public:
  explicit CudaSources(const c10::cuda::CUDAStream& stream) : stream_(stream) {}

  /// Returns the tensor, contiguous, for the stream to read.
  [[nodiscard]] at::Tensor packed(const at::Tensor& tensor);
  /// Call after all tensors of packed() were passed to the stream.
  void handed_over();

 private:
  struct Kept {
    std::vector<at::Tensor> tensors;
    MomentPtr read;
  };
  c10::cuda::CUDAStream stream_;
  std::vector<at::Tensor> reading_;
  std::vector<Kept> kept_;
};

}  // namespace mptune::profiler
