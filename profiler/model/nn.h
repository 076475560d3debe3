#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>

#include "mptune/profiler/model/model.h"

/// Adapters from torch::nn for users; reached as <mptune/nn.h>. The one header that includes torch/torch.h.
namespace mptune {

/// A layer made of a module and its forward. The module is cloned for every device, so it must be torch::nn::Cloneable.
/// Batch norms inside it are found and their running statistics committed once per batch.
[[nodiscard]] std::unique_ptr<Layer> layer(std::string kind, std::shared_ptr<torch::nn::Module> module, std::string prefix,
                                           std::function<Tensors(torch::nn::Module&, const Tensors&)> forward);

/// Every child of a Sequential becomes a layer named by its key. The sample's shape is needed for synthetic data and tuning only.
[[nodiscard]] Model from_sequential(const torch::nn::Sequential& net, Loss loss, SampleDescription sample = {});

}  // namespace mptune
