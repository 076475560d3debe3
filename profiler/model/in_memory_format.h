#pragma once

#include "profiler/base/memory_format.h"
#include "profiler/model/model.h"

namespace mptune::profiler {

/// True if a layer has a 4-d floating parameter: the memory format decides how its convolutions compute.
[[nodiscard]] bool has_convolution_weights(const std::vector<ModelLayer>& layers);

/// Converts the layers' 4-d floating parameters in place: all holders of them see it, values and names stay. Contiguous: does nothing.
/// Requires: no gradients, tied layers.
void to_memory_format(const std::vector<ModelLayer>& layers, MemoryFormat format);

/// The same values in the format; other tensors than 4-d floating ones as they are. Contiguous: as they are.
[[nodiscard]] at::Tensor in_memory_format(const at::Tensor& tensor, MemoryFormat format);

}  // namespace mptune::profiler
