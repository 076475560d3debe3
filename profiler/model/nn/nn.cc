#include "profiler/model/nn/nn.h"

#include <utility>

#include "profiler/base/error.h"
#include "profiler/model/nn/module_layer.h"

namespace mptune {
namespace {

// One child of a Sequential with its key, which SequentialImpl::clone would lose.
class Child final : public torch::nn::Module {
 public:
  Child(std::string key, torch::nn::AnyModule child) : key_(std::move(key)), child_(std::move(child)) {
    register_module(key_, child_.ptr());
  }

  std::shared_ptr<torch::nn::Module> clone(const std::optional<torch::Device>& device = std::nullopt) const override {
    return std::make_shared<Child>(key_, child_.clone(device));
  }
  Tensors forward(const Tensors& inputs) { return {child_.forward<at::Tensor>(inputs.at(0))}; }

 private:
  std::string key_;
  torch::nn::AnyModule child_;
};

// Returns "Conv2d" for "torch::nn::Conv2dImpl".
std::string kind_of(const torch::nn::Module& module) {
  std::string name = module.name();
  const auto scope = name.rfind("::");
  name = scope == std::string::npos ? name : name.substr(scope + 2);
  const std::string suffix = "Impl";
  return name.size() > suffix.size() && name.ends_with(suffix) ? name.substr(0, name.size() - suffix.size()) : name;
}

}  // namespace

std::unique_ptr<Layer> layer(std::string kind, std::shared_ptr<torch::nn::Module> module, std::string prefix,
                             std::function<Tensors(torch::nn::Module&, const Tensors&)> forward, std::optional<TensorFlow> flow) {
  return profiler::make_module_layer(std::move(kind), std::move(module), prefix, std::move(forward), std::move(flow));
}

Model from_sequential(const torch::nn::Sequential& net, Loss loss, SampleDescription sample) {
  std::vector<ModelLayer> layers;
  const auto keys = net->named_children().keys();
  std::size_t index = 0;
  for (const auto& any : *net) {
    const auto& key = keys.at(index++);
    auto child = std::make_shared<Child>(key, any);
    const auto forward = [](torch::nn::Module& module, const Tensors& inputs) { return static_cast<Child&>(module).forward(inputs); };
    layers.push_back({key, {key}, profiler::make_module_layer(kind_of(*any.ptr()), std::move(child), "", forward)});
  }
  constexpr int kDefaultBatch = 32;
  return {"sequential", std::move(layers), std::move(loss), std::move(sample), kDefaultBatch};
}

}  // namespace mptune
