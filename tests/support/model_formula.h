#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <torch/types.h>

#include "profiler/model/layers/model.h"

/// Weights and data from a formula, the same as in tests/golden/model_resnet.py.
namespace mptune::testing {

inline at::Tensor fill(at::IntArrayRef shape, std::int64_t index, double scale, double offset = 0.0) {
  const auto tensor = at::empty(shape, at::kFloat);
  auto* data = tensor.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    const double value = static_cast<double>((i * 7919 + (index + 1) * 104729) % 2003) / 1001.0 - 1.0;
    data[i] = static_cast<float>(value * scale + offset);
  }
  return tensor;
}

inline at::Tensor filled_like(const std::string& name, const at::Tensor& tensor, std::int64_t index) {
  if (name.ends_with("num_batches_tracked")) return at::full(tensor.sizes(), 3, at::kLong);
  if (name.ends_with("running_mean") || name.ends_with("bias")) return fill(tensor.sizes(), index, 0.1);
  if (name.ends_with("running_var") || tensor.dim() == 1) return fill(tensor.sizes(), index, 0.25, 1.0);
  return fill(tensor.sizes(), index, std::sqrt(3.0 / static_cast<double>(tensor[0].numel())));
}

/// `state` in the order of Python's state_dict().
inline void fill_state(const std::vector<NamedTensor>& state) {
  const at::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < state.size(); ++i)
    at::Tensor(state[i].tensor).copy_(filled_like(state[i].name, state[i].tensor, static_cast<std::int64_t>(i)));
}

/// Commits, for every layer, what the forward of one micro-batch left.
inline void commit_single(Model& model) {
  for (auto& each : model.layers()) {
    std::vector<std::vector<BatchStatistics>> by_norm;
    for (auto& statistics : each.layer->take_statistics()) by_norm.push_back({std::move(statistics)});
    each.layer->commit_statistics(by_norm);
  }
}

}  // namespace mptune::testing
