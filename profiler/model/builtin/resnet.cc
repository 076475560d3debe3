#include <torch/nn.h>

#include <array>

#include "profiler/model/builtin/builtin.h"
#include "profiler/model/builtin/builtin_chain.h"
#include "profiler/model/builtin/resnet_blocks.h"

// torchvision's ResNet, with its module names and order of registration.
namespace mptune::profiler {
namespace {

constexpr std::int64_t kClasses = 1000;
constexpr int kResnetBatch = 32;

class ResNetHead final : public torch::nn::Cloneable<ResNetHead> {
 public:
  explicit ResNetHead(std::int64_t features) : features_(features) { reset(); }
  void reset() override { fc = register_module("fc", std::make_shared<Dense>(features_, kClasses)); }
  at::Tensor forward(const at::Tensor& input) { return fc->forward(at::adaptive_avg_pool2d(input, {1, 1}).flatten(1)); }

  std::shared_ptr<Dense> fc;

 private:
  std::int64_t features_;
};

template <class Block>
Model make_resnet(const std::string& model, const std::array<int, 4>& blocks, const std::string& parameters, const std::string& input,
                  Seed seed) {
  (void)parse_parameters(model, parameters, {});
  const auto sample = parse_images({.model = model}, input, kClasses);
  BuiltinChain chain(sample.inputs.front().type, seed);
  constexpr std::int64_t kWidth = 64;
  chain.add({"stem", {"conv1", "bn1", "relu", "maxpool"}, "Stem", ""}, std::make_shared<ResNetStem>(kWidth));
  std::int64_t in = kWidth;
  for (std::size_t group = 0; group < blocks.size(); ++group) {
    const std::int64_t width = kWidth << group;
    for (int i = 0; i < blocks[group]; ++i) {
      const auto name = "layer" + std::to_string(group + 1) + "." + std::to_string(i);
      chain.add({name, {name}, Block::kKind, name}, std::make_shared<Block>(ResNetBlockSizes{in, width, group > 0 && i == 0 ? 2 : 1}));
      in = width * Block::kExpansion;
    }
  }
  chain.add({"head", {"avgpool", "fc"}, "Head", ""}, std::make_shared<ResNetHead>(in));
  return {model, chain.take(), Loss::cross_entropy(), sample, kResnetBatch};
}

}  // namespace

Model make_resnet18(const std::string& parameters, const std::string& input, Seed seed) {
  return make_resnet<BasicBlock>("resnet18", {2, 2, 2, 2}, parameters, input, seed);
}

Model make_resnet50(const std::string& parameters, const std::string& input, Seed seed) {
  return make_resnet<Bottleneck>("resnet50", {3, 4, 6, 3}, parameters, input, seed);
}

}  // namespace mptune::profiler
