#include "profiler/model/layers/in_memory_format.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace mptune::profiler {
namespace {

bool has_channels(const at::Tensor& tensor) {
  return tensor.dim() == 4 && at::isFloatingType(tensor.scalar_type());
}

// Looks at the suggested format: a 1x1 weight is contiguous in both formats, and its strides choose the kernel.
bool is_channels_last(const at::Tensor& tensor) {
  return tensor.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
}

}  // namespace

bool has_convolution_weights(const std::vector<ModelLayer>& layers) {
  const auto parameters = parameters_of(layers);
  return std::any_of(parameters.begin(), parameters.end(), [](const NamedTensor& parameter) { return has_channels(parameter.tensor); });
}

void to_memory_format(const std::vector<ModelLayer>& layers, MemoryFormat format) {
  if (format == MemoryFormat::contiguous) return;
  const at::NoGradGuard no_grad;
  for (const NamedTensor& parameter : parameters_of(layers))
    if (has_channels(parameter.tensor)) parameter.tensor.set_data(in_memory_format(parameter.tensor.detach(), format));
}

at::Tensor in_memory_format(const at::Tensor& tensor, MemoryFormat format) {
  if (format == MemoryFormat::contiguous || !tensor.defined() || !has_channels(tensor) || is_channels_last(tensor)) return tensor;
  return tensor.clone(at::MemoryFormat::ChannelsLast);
}

}  // namespace mptune::profiler
