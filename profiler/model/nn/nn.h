#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "profiler/model/layers/model.h"
#include "profiler/model/plugin/plugin_header.h"

/// Adapters from torch::nn for users; reached as <mptune/nn.h>. The one header that includes torch/torch.h.
namespace mptune {

/// Makes a layer of a module and its forward. The module is cloned for every device, so it must be torch::nn::Cloneable.
/// Running statistics of batch norms in it are committed once per batch. `flow` says which inputs the forward reads and which it passes
/// on (Layer::flow), so that branches may run on different devices at once.
[[nodiscard]] std::unique_ptr<Layer> layer(std::string kind, std::shared_ptr<torch::nn::Module> module, std::string prefix,
                                           std::function<Tensors(torch::nn::Module&, const Tensors&)> forward,
                                           std::optional<TensorFlow> flow = std::nullopt);

/// Makes each child of a Sequential a layer, named by its key. `sample` is needed for synthetic data and tuning only.
[[nodiscard]] Model from_sequential(const torch::nn::Sequential& net, Loss loss, SampleDescription sample = {});

}  // namespace mptune
