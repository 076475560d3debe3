#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Generator.h>

#include "profiler/model/layers/model.h"
#include "profiler/model/nn/module_layer.h"

/// Makes layers of built-in models.
namespace mptune::profiler {

/// The default initialisation: convolutions as in torchvision with zero biases, linear layers as in torch::nn.
void initialise_usually(torch::nn::Module& module, at::Generator& generator);

/// One layer of a built-in model: name, module paths that it covers, kind, prefix of its parameters.
struct LayerText {
  std::string name;
  std::vector<std::string> modules;
  const char* kind = "";
  std::string prefix;
};

/// Forward of a module with one input and one output.
template <class Module>
Tensors run_module(torch::nn::Module& module, const Tensors& inputs) {
  return {static_cast<Module&>(module).forward(inputs.at(0))};
}

/// Collects the layers of a built-in model; weights are drawn from one generator in the order of the layers.
class BuiltinChain {
 public:
  using Initialise = void (*)(torch::nn::Module& module, at::Generator& generator);

  /// Floating-point parameters are converted to `type`. Without a seed, weights stay uninitialised.
  BuiltinChain(at::ScalarType type, std::optional<std::uint64_t> seed, Initialise initialise = initialise_usually);

  template <class Module>
  void add(LayerText text, std::shared_ptr<Module> module, ModuleForward forward = run_module<Module>,
           std::optional<TensorFlow> flow = std::nullopt) {
    prepare(*module);
    layers_.push_back({std::move(text.name), std::move(text.modules),
                       make_module_layer(text.kind, std::move(module), text.prefix, std::move(forward), std::move(flow))});
  }
  [[nodiscard]] std::vector<ModelLayer> take() { return std::exchange(layers_, {}); }

 private:
  void prepare(torch::nn::Module& module);

  at::ScalarType type_;
  std::optional<at::Generator> generator_;
  Initialise initialise_;
  std::vector<ModelLayer> layers_;
};

}  // namespace mptune::profiler
