#pragma once

#include "profiler/base/memory_format.h"
#include "profiler/model/layers/model.h"

namespace mptune::profiler {

/// True if a layer has a 4-d floating parameter: the memory format decides how its convolutions compute.
[[nodiscard]] bool has_convolution_weights(const std::vector<ModelLayer>& layers);

/// Converts the layers' 4-d floating parameters in place: all holders of them see it, and values and names stay. Does nothing for
/// contiguous.
/// Requires: no gradients, tied layers.
void to_memory_format(const std::vector<ModelLayer>& layers, MemoryFormat format);

/// Returns the same values in the format. Other tensors than 4-d floating ones, and all tensors if the format is contiguous, stay as they
/// are.
[[nodiscard]] at::Tensor in_memory_format(const at::Tensor& tensor, MemoryFormat format);

}  // namespace mptune::profiler
