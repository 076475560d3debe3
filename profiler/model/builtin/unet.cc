#include <torch/nn.h>

#include <functional>
#include <utility>

#include <algorithm>

#include "profiler/model/builtin/builtin.h"
#include "profiler/model/builtin/builtin_chain.h"
#include "profiler/model/builtin/primitives.h"

// U-Net (Ronneberger et al. 2015) with batch norms and padded convolutions, with the module names of the common PyTorch port (inc, down1..,
// up1.., outc). Every layer also passes on the skip connections that the decoder will read, the next one first.
namespace mptune::profiler {
namespace {

constexpr int kUnetBatch = 16;

class ConvolutionPair final : public torch::nn::Cloneable<ConvolutionPair> {
 public:
  ConvolutionPair(std::int64_t in, std::int64_t out) : in_(in), out_(out) { reset(); }
  void reset() override {
    convolution1 = register_module("0", std::make_shared<Convolution>(in_, out_, 3, 1));
    norm1 = register_module("1", torch::nn::BatchNorm2d(out_));
    convolution2 = register_module("3", std::make_shared<Convolution>(out_, out_, 3, 1));
    norm2 = register_module("4", torch::nn::BatchNorm2d(out_));
  }
  at::Tensor forward(const at::Tensor& input) {
    const auto middle = norm1->forward(convolution1->forward(input)).relu_();
    return norm2->forward(convolution2->forward(middle)).relu_();
  }

  std::shared_ptr<Convolution> convolution1, convolution2;
  torch::nn::BatchNorm2d norm1{nullptr}, norm2{nullptr};

 private:
  std::int64_t in_, out_;
};

class DoubleConv final : public torch::nn::Cloneable<DoubleConv> {
 public:
  DoubleConv(std::int64_t in, std::int64_t out) : in_(in), out_(out) { reset(); }
  void reset() override { pair = register_module("double_conv", std::make_shared<ConvolutionPair>(in_, out_)); }
  at::Tensor forward(const at::Tensor& input) { return pair->forward(input); }

  std::shared_ptr<ConvolutionPair> pair;

 private:
  std::int64_t in_, out_;
};

class Up final : public torch::nn::Cloneable<Up> {
 public:
  explicit Up(std::int64_t in) : in_(in) { reset(); }
  void reset() override {
    up = register_module("up", std::make_shared<TransposedConvolution>(in_, in_ / 2));
    convolutions = register_module("conv", std::make_shared<DoubleConv>(in_, in_ / 2));
  }
  at::Tensor forward(const at::Tensor& input, const at::Tensor& skip) {
    return convolutions->forward(at::cat({skip, up->forward(input)}, 1));
  }

  std::shared_ptr<TransposedConvolution> up;
  std::shared_ptr<DoubleConv> convolutions;

 private:
  std::int64_t in_;
};

// { x, skips } -> { down(x), x, skips }
Tensors down(torch::nn::Module& module, const Tensors& inputs) {
  Tensors outputs{static_cast<DoubleConv&>(module).forward(at::max_pool2d(inputs.at(0), {2, 2}))};
  outputs.insert(outputs.end(), inputs.begin(), inputs.end());
  return outputs;
}

// Returns the flow of a down layer; `skips` tensors wait for layers after it.
TensorFlow flow_down(std::int64_t skips) {
  TensorFlow flow{{1}, {-1, 0}};
  for (int i = 1; i <= skips; ++i) flow.reads.push_back(0), flow.passes.push_back(i);
  return flow;
}

TensorFlow flow_up(std::int64_t skips) {
  TensorFlow flow{{1, 1}, {-1}};
  for (int i = 0; i < skips; ++i) flow.reads.push_back(0), flow.passes.push_back(i + 2);
  return flow;
}

// { x, skip, skips } -> { up(x, skip), skips }
Tensors up(torch::nn::Module& module, const Tensors& inputs) {
  Tensors outputs{static_cast<Up&>(module).forward(inputs.at(0), inputs.at(1))};
  outputs.insert(outputs.end(), inputs.begin() + 2, inputs.end());
  return outputs;
}

}  // namespace

Model make_unet(const std::string& parameters, const std::string& input, Seed seed) {
  const auto values = parse_parameters("unet", parameters, {{"base", 64, 1, 1024}, {"depth", 4, 1, 8}, {"classes", 2, 2, 100000}});
  const auto base = values.at("base");
  const auto depth = values.at("depth");
  const auto classes = values.at("classes");
  const auto widest = static_cast<double>(base << depth);
  check_size("unet:" + parameters, 27 * widest * widest + static_cast<double>(base * classes));
  const std::int64_t multiple = std::int64_t{1} << depth;
  auto sample = parse_images(
      {.model = "unet", .side = std::max<std::int64_t>(256, 2 * multiple), .least = 2 * multiple, .multiple = multiple}, input, classes);
  const auto& images = sample.inputs.front();
  sample.target.shape = {images.shape[1], images.shape[2]};

  BuiltinChain chain(images.type, seed);
  chain.add({"inc", {"inc"}, "DoubleConv", "inc"}, std::make_shared<DoubleConv>(3, base));
  for (std::int64_t i = 1; i <= depth; ++i) {
    const auto name = "down" + std::to_string(i);
    chain.add({name, {name}, "Down", name + ".maxpool_conv.1"}, std::make_shared<DoubleConv>(base << (i - 1), base << i), down,
              flow_down(i - 1));
  }
  for (std::int64_t i = 1; i <= depth; ++i) {
    const auto name = "up" + std::to_string(i);
    chain.add({name, {name}, "Up", name}, std::make_shared<Up>(base << (depth + 1 - i)), up, flow_up(depth - i));
  }
  chain.add({"outc", {"outc"}, "OutConv", "outc.conv"}, std::make_shared<Convolution>(base, classes, 1, 1, /*with_bias=*/true));
  return {"unet", chain.take(), Loss::cross_entropy(), sample, kUnetBatch};
}

}  // namespace mptune::profiler
