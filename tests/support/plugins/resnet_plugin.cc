// A plug-in for tests: ResNet-18 of torch::nn modules, with the names of the built-in one. The environment variable MPTUNE_TEST_PLUGIN
// makes its factory fail or return another model.
#include <mptune/nn.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "profiler/base/error.h"

namespace {

namespace nn = torch::nn;

nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t window, std::int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, window).stride(stride).padding(window / 2).bias(false));
}

struct Block : nn::Cloneable<Block> {
  Block(std::int64_t from, std::int64_t to, std::int64_t step) : in(from), out(to), stride(step) { reset(); }
  void reset() override {
    conv1 = register_module("conv1", convolution(in, out, 3, stride));
    bn1 = register_module("bn1", nn::BatchNorm2d(out));
    conv2 = register_module("conv2", convolution(out, out, 3, 1));
    bn2 = register_module("bn2", nn::BatchNorm2d(out));
    if (stride != 1 || in != out)
      downsample = register_module("downsample", nn::Sequential(convolution(in, out, 1, stride), nn::BatchNorm2d(out)));
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto inner = bn2(conv2(torch::relu(bn1(conv1(x)))));
    return torch::relu(inner + (downsample ? downsample->forward(x) : x));
  }

  std::int64_t in, out, stride;
  nn::Conv2d conv1{nullptr}, conv2{nullptr};
  nn::BatchNorm2d bn1{nullptr}, bn2{nullptr};
  nn::Sequential downsample{nullptr};
};

struct Stem : nn::Cloneable<Stem> {
  Stem() { reset(); }
  void reset() override {
    conv1 = register_module("conv1", convolution(3, 64, 7, 2));
    bn1 = register_module("bn1", nn::BatchNorm2d(64));
  }
  at::Tensor forward(const at::Tensor& x) { return torch::max_pool2d(torch::relu(bn1(conv1(x))), 3, 2, 1); }
  nn::Conv2d conv1{nullptr};
  nn::BatchNorm2d bn1{nullptr};
};

struct Head : nn::Cloneable<Head> {
  Head() { reset(); }
  void reset() override { fc = register_module("fc", nn::Linear(512, 1000)); }
  at::Tensor forward(const at::Tensor& x) { return fc(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1)); }
  nn::Linear fc{nullptr};
};

template <class Module>
mptune::Tensors run(nn::Module& module, const mptune::Tensors& inputs) {
  return {static_cast<Module&>(module).forward(inputs.at(0))};
}

mptune::Model resnet18(const mptune::SampleDescription& sample) {
  std::vector<mptune::ModelLayer> layers;
  layers.push_back({"stem", {"conv1", "bn1"}, mptune::layer("Stem", std::make_shared<Stem>(), "", run<Stem>)});
  std::int64_t in = 64;
  for (int group = 1; group <= 4; ++group) {
    const std::int64_t out = 32LL << group;
    for (int i = 0; i < 2; ++i) {
      const auto name = "layer" + std::to_string(group) + "." + std::to_string(i);
      const auto block = std::make_shared<Block>(in, out, group > 1 && i == 0 ? 2 : 1);
      layers.push_back({name, {name}, mptune::layer("BasicBlock", block, name, run<Block>)});
      in = out;
    }
  }
  layers.push_back({"head", {"fc"}, mptune::layer("Head", std::make_shared<Head>(), "", run<Head>)});
  return {"resnet", std::move(layers), mptune::Loss::cross_entropy(), sample, 32};
}

/// Writes into its input and draws random numbers.
struct Noisy final : nn::Cloneable<Noisy> {
  void reset() override {}
  at::Tensor forward(const at::Tensor& x) { return at::dropout(at::Tensor(x).relu_(), 0.5, true); }
};

/// Counts its calls; the output depends on the count.
struct Counting final : nn::Cloneable<Counting> {
  Counting() { reset(); }
  void reset() override { fc = register_module("fc", nn::Linear(50, 50)); }
  at::Tensor forward(const at::Tensor& x) { return fc(x) * (1 + 0.1 * calls++); }
  nn::Linear fc{nullptr};
  int calls = 0;
};

/// Each forward takes so long [s], however many samples there are.
struct Sleepy final : nn::Cloneable<Sleepy> {
  explicit Sleepy(double forward_s) : seconds(forward_s) { reset(); }
  void reset() override { fc = register_module("fc", nn::Linear(50, 50)); }
  at::Tensor forward(const at::Tensor& x) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    return fc(x);
  }
  double seconds;
  nn::Linear fc{nullptr};
};

mptune::Model factory() {
  const char* variable = std::getenv("MPTUNE_TEST_PLUGIN");
  const std::string mode = variable == nullptr ? "" : variable;
  if (mode == "std") throw std::runtime_error("no weights today\nand a second line");
  if (mode == "c10") TORCH_CHECK(false, "sizes do not match");
  if (mode == "other") throw 7;  // NOLINT
  if (mode == "mptune") throw mptune::Error("the vocabulary is missing", "vocab.txt", "download it");
  if (mode == "no sample") return resnet18({});
  if (mode == "integers") {
    const nn::Sequential net(nn::Embedding(20, 8), nn::Linear(8, 20));
    return mptune::from_sequential(net, mptune::Loss::cross_entropy());
  }
  mptune::SampleDescription sample;
  if (mode == "noisy") {
    std::vector<mptune::ModelLayer> layers;
    layers.push_back({"noisy", {"noisy"}, mptune::layer("Noisy", std::make_shared<Noisy>(), "noisy", run<Noisy>)});
    sample.inputs = {{.shape = {50}}};
    return {"noisy", std::move(layers), mptune::Loss::mean_square(), sample, 4};
  }
  if (mode == "counting") {
    std::vector<mptune::ModelLayer> layers;
    layers.push_back({"counting", {"fc"}, mptune::layer("Counting", std::make_shared<Counting>(), "", run<Counting>)});
    sample.inputs = {{.shape = {50}}};
    return {"counting", std::move(layers), mptune::Loss::mean_square(), sample, 4};
  }
  if (mode.rfind("sleepy ", 0) == 0) {
    const double seconds = std::atof(mode.c_str() + std::string("sleepy ").size());
    std::vector<mptune::ModelLayer> layers;
    layers.push_back({"first", {"first"}, mptune::layer("Sleepy", std::make_shared<Sleepy>(0.0), "first", run<Sleepy>)});
    layers.push_back({"slow", {"slow"}, mptune::layer("Sleepy", std::make_shared<Sleepy>(seconds), "slow", run<Sleepy>)});
    sample.inputs = {{.shape = {50}}};
    return {"sleepy", std::move(layers), mptune::Loss::mean_square(), sample, 4};
  }
  sample.inputs = {{.shape = {3, 32, 32}}};
  sample.target.classes = mode == "input only" ? 0 : 1000;
  return resnet18(sample);
}

}  // namespace

MPTUNE_MODEL(factory);
