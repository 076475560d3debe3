#include <torch/nn.h>

#include <functional>
#include <utility>

#include "profiler/model/builtin/builtin.h"
#include "profiler/model/builtin/builtin_chain.h"
#include "profiler/model/builtin/resnet_blocks.h"

// Two branches, each torchvision's ResNet-18 without head on one of two images, joined by a linear layer over both features. The branches
// do not read each other, so stages of different branches run at the same time. In a chain of layers the first branch passes the images on,
// and the second one the first branch's feature:
//
//     first.stem .. first.layer4.1 | second.stem .. second.layer4.1 | head
//       passes the images on       |  passes the first feature on
namespace mptune::profiler {
namespace {

constexpr int kLateFusionBatch = 32;
constexpr int kBranchGroups = 4;
constexpr int kBlocks = 2;

at::Tensor pooled(const at::Tensor& input) {
  return at::adaptive_avg_pool2d(input, {1, 1}).flatten(1);
}

// Computes a piece of a branch on its own tensor; the other tensor is passed on.
using Piece = std::function<at::Tensor(torch::nn::Module& module, const at::Tensor& input)>;

ModuleForward beside(Piece piece) {
  return [piece = std::move(piece)](torch::nn::Module& module, const Tensors& inputs) {
    return Tensors{piece(module, inputs.at(0)), inputs.at(1)};
  };
}

at::Tensor block(torch::nn::Module& module, const at::Tensor& input) {
  return static_cast<BasicBlock&>(module).forward(input);
}
at::Tensor block_and_pool(torch::nn::Module& module, const at::Tensor& input) {
  return pooled(block(module, input));
}

// { images } -> { first branch, images }
Tensors first_stem(torch::nn::Module& module, const Tensors& inputs) {
  return {static_cast<ResNetStem&>(module).forward(inputs.at(0).select(1, 0)), inputs[0]};
}
// { first feature, images } -> { second branch, first feature }
Tensors second_stem(torch::nn::Module& module, const Tensors& inputs) {
  return {static_cast<ResNetStem&>(module).forward(inputs.at(1).select(1, 1)), inputs.at(0)};
}
Tensors head(torch::nn::Module& module, const Tensors& inputs) {
  return {static_cast<Dense&>(module).forward(at::cat({inputs.at(1), inputs.at(0)}, 1))};
}

void add_branch(BuiltinChain& chain, const std::string& branch, std::int64_t width, ModuleForward stem, TensorFlow flow) {
  const auto name_of = [&](const std::string& module) { return branch + "." + module; };
  chain.add({name_of("stem"), {name_of("conv1"), name_of("bn1"), name_of("relu"), name_of("maxpool")}, "Stem", branch},
            std::make_shared<ResNetStem>(width), std::move(stem), std::move(flow));
  std::int64_t in = width;
  for (int group = 0; group < kBranchGroups; ++group) {
    const std::int64_t out = width << group;
    for (int i = 0; i < kBlocks; ++i) {
      const auto name = name_of("layer" + std::to_string(group + 1) + "." + std::to_string(i));
      const bool last = group + 1 == kBranchGroups && i + 1 == kBlocks;
      std::vector<std::string> modules{name};
      if (last) modules.push_back(name_of("avgpool"));
      chain.add({name, std::move(modules), last ? "BasicBlockPool" : BasicBlock::kKind, name},
                std::make_shared<BasicBlock>(ResNetBlockSizes{in, out, group > 0 && i == 0 ? 2 : 1}), beside(last ? block_and_pool : block),
                TensorFlow{{TensorFlow::kSeveral, 0}, {-1, 1}});
      in = out;
    }
  }
}

}  // namespace

Model make_late_fusion(const std::string& parameters, const std::string& input, Seed seed) {
  const auto values = parse_parameters("late-fusion", parameters, {{"width", 64, 1, 1024}, {"classes", 1000, 2, 1000000}});
  const auto width = values.at("width");
  const auto classes = values.at("classes");
  const auto w = static_cast<double>(width);
  check_size("late-fusion:" + parameters, 2 * 2730 * w * w + 16 * w * static_cast<double>(classes));
  const auto sample = parse_images({.model = "late-fusion", .leading = {2, 3}}, input, classes);
  BuiltinChain chain(sample.inputs.front().type, seed);
  add_branch(chain, "first", width, first_stem, {{1}, {-1, 0}});
  add_branch(chain, "second", width, second_stem, {{0, 1}, {-1, 0}});
  chain.add({"head", {"head"}, "Head", "head"}, std::make_shared<Dense>(2 * (width << (kBranchGroups - 1)), classes), head);
  return {"late-fusion", chain.take(), Loss::cross_entropy(), sample, kLateFusionBatch};
}

}  // namespace mptune::profiler
