#include <torch/nn.h>

#include <array>

#include "profiler/model/builtin/builtin.h"
#include "profiler/model/builtin/builtin_chain.h"
#include "profiler/model/builtin/primitives.h"

// torchvision's VGG-16 (configuration D), with its module names.
namespace mptune::profiler {
namespace {

constexpr int kVggBatch = 32;
constexpr std::int64_t kPooledSide = 7;

// Groups of convolutions with 1, 2, 4, 8, 8 times the width; each group ends with a pool.
struct Group {
  std::int64_t widths;
  int convolutions;
};
constexpr std::array<Group, 5> kVggGroups = {{{1, 2}, {2, 2}, {4, 3}, {8, 3}, {8, 3}}};

void initialise_vgg(torch::nn::Module& module, at::Generator& generator) {
  if (auto* dense = module.as<Dense>())
    dense->initialise_normal(generator, 0.01);
  else
    initialise_usually(module, generator);
}

std::string feature(int index) {
  return "features." + std::to_string(index);
}

Tensors convolved(torch::nn::Module& module, const Tensors& inputs) {
  return {static_cast<Convolution&>(module).forward(inputs.at(0)).relu_()};
}
Tensors convolved_and_pooled(torch::nn::Module& module, const Tensors& inputs) {
  return {at::max_pool2d(convolved(module, inputs)[0], {2, 2}, {2, 2})};
}

double parameter_count(std::int64_t width, std::int64_t hidden, std::int64_t classes) {
  const auto w = static_cast<double>(width);
  const auto h = static_cast<double>(hidden);
  return 3591.0 * w * w + 8.0 * kPooledSide * kPooledSide * w * h + h * h + h * static_cast<double>(classes);
}

// Returns the number of channels of the last convolution.
std::int64_t add_features(BuiltinChain& chain, std::int64_t width) {
  std::int64_t in = 3;
  int index = 0;
  for (const Group& group : kVggGroups) {
    for (int i = 0; i < group.convolutions; ++i) {
      const bool pools = i + 1 == group.convolutions;
      const std::int64_t out = width * group.widths;
      std::vector<std::string> modules{feature(index), feature(index + 1)};
      if (pools) modules.push_back(feature(index + 2));
      chain.add({feature(index), std::move(modules), pools ? "ConvolutionPool" : "Convolution", feature(index)},
                std::make_shared<Convolution>(in, out, 3, 1, /*with_bias=*/true), pools ? convolved_and_pooled : convolved);
      index += pools ? 3 : 2;
      in = out;
    }
  }
  return in;
}

}  // namespace

Model make_vgg16(const std::string& parameters, const std::string& input, Seed seed) {
  const auto values = parse_parameters(
      "vgg16", parameters, {{"width", 64, 1, 1024}, {"hidden", 4096, 1, 65536}, {"classes", 1000, 2, 1000000}, {"dropout", 50, 0, 99}});
  const auto hidden = values.at("hidden");
  const auto classes = values.at("classes");
  check_size("vgg16:" + parameters, parameter_count(values.at("width"), hidden, classes));
  const auto sample = parse_images({.model = "vgg16", .least = 32}, input, classes);

  BuiltinChain chain(sample.inputs.front().type, seed, initialise_vgg);
  const auto channels = add_features(chain, values.at("width"));
  const auto hidden_forward = [dropout = static_cast<double>(values.at("dropout")) / 100](torch::nn::Module& module,
                                                                                          const Tensors& inputs) {
    return Tensors{at::dropout(static_cast<Dense&>(module).forward(inputs.at(0)).relu_(), dropout, true)};
  };
  const auto first_forward = [hidden_forward](torch::nn::Module& module, const Tensors& inputs) {
    return hidden_forward(module, {at::adaptive_avg_pool2d(inputs.at(0), {kPooledSide, kPooledSide}).flatten(1)});
  };
  chain.add({"classifier.0", {"avgpool", "classifier.0", "classifier.1", "classifier.2"}, "PoolLinear", "classifier.0"},
            std::make_shared<Dense>(channels * kPooledSide * kPooledSide, hidden), first_forward);
  chain.add({"classifier.3", {"classifier.3", "classifier.4", "classifier.5"}, "LinearReLU", "classifier.3"},
            std::make_shared<Dense>(hidden, hidden), hidden_forward);
  chain.add({"classifier.6", {"classifier.6"}, "Linear", "classifier.6"}, std::make_shared<Dense>(hidden, classes));
  return {"vgg16", chain.take(), Loss::cross_entropy(), sample, kVggBatch};
}

}  // namespace mptune::profiler
