#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "profiler/model/layers/layer.h"

namespace torch::nn {
class Module;
}

namespace mptune::profiler {

using ModuleForward = std::function<Tensors(torch::nn::Module&, const Tensors&)>;

/// Makes the layer for `layer(...)` of nn.h: parameters and buffers are called prefix + "." + path, or path if prefix is empty. Parameters
/// that do not require gradients are listed with the buffers. A module whose forward writes into its input gets a copy of it. `flow`: see
/// Layer::flow.
[[nodiscard]] std::unique_ptr<Layer> make_module_layer(std::string kind, std::shared_ptr<torch::nn::Module> module,
                                                       const std::string& prefix, ModuleForward forward,
                                                       std::optional<TensorFlow> flow = std::nullopt);

}  // namespace mptune::profiler
