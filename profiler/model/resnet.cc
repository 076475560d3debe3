#include <ATen/CPUGeneratorImpl.h>

#include <torch/torch.h>

#include <array>

#include "mptune/profiler/model/builtin.h"
#include "mptune/profiler/model/module_layer.h"
#include "mptune/profiler/model/primitives.h"
#include "mptune/profiler/trace/error.h"

// torchvision's ResNet, with its module names and the order in which it registers them.
namespace mptune {
namespace {

constexpr std::int64_t kClasses = 1000;
constexpr int kBatch = 32;

class Stem final : public torch::nn::Cloneable<Stem> {
 public:
  Stem() { reset(); }
  void reset() override {
    conv1 = register_module("conv1", std::make_shared<Convolution>(3, 64, 7, 2));
    bn1 = register_module("bn1", torch::nn::BatchNorm2d(64));
  }
  at::Tensor forward(const at::Tensor& input) {
    return at::max_pool2d(bn1->forward(conv1->forward(input)).relu_(), {3, 3}, {2, 2}, {1, 1});
  }

  std::shared_ptr<Convolution> conv1;
  torch::nn::BatchNorm2d bn1{nullptr};
};

class Downsample final : public torch::nn::Cloneable<Downsample> {
 public:
  Downsample(std::int64_t in, std::int64_t out, std::int64_t stride) : in_(in), out_(out), stride_(stride) { reset(); }
  void reset() override {
    convolution_ = register_module("0", std::make_shared<Convolution>(in_, out_, 1, stride_));
    norm_ = register_module("1", torch::nn::BatchNorm2d(out_));
  }
  at::Tensor forward(const at::Tensor& input) { return norm_->forward(convolution_->forward(input)); }

 private:
  std::int64_t in_, out_, stride_;
  std::shared_ptr<Convolution> convolution_;
  torch::nn::BatchNorm2d norm_{nullptr};
};

struct Stage {
  std::int64_t in, width, stride;
};

class BasicBlock final : public torch::nn::Cloneable<BasicBlock> {
 public:
  static constexpr const char* kKind = "BasicBlock";
  static constexpr std::int64_t kExpansion = 1;

  explicit BasicBlock(const Stage& stage) : stage_(stage) { reset(); }
  void reset() override {
    conv1 = register_module("conv1", std::make_shared<Convolution>(stage_.in, stage_.width, 3, stage_.stride));
    bn1 = register_module("bn1", torch::nn::BatchNorm2d(stage_.width));
    conv2 = register_module("conv2", std::make_shared<Convolution>(stage_.width, stage_.width, 3, 1));
    bn2 = register_module("bn2", torch::nn::BatchNorm2d(stage_.width));
    if (stage_.stride != 1 || stage_.in != stage_.width) {
      downsample = register_module("downsample", std::make_shared<Downsample>(stage_.in, stage_.width, stage_.stride));
    }
  }
  at::Tensor forward(const at::Tensor& input) {
    auto output = bn1->forward(conv1->forward(input)).relu_();
    output = bn2->forward(conv2->forward(output));
    return output.add_(downsample ? downsample->forward(input) : input).relu_();
  }

  std::shared_ptr<Convolution> conv1, conv2;
  torch::nn::BatchNorm2d bn1{nullptr}, bn2{nullptr};
  std::shared_ptr<Downsample> downsample;

 private:
  Stage stage_;
};

class Bottleneck final : public torch::nn::Cloneable<Bottleneck> {
 public:
  static constexpr const char* kKind = "Bottleneck";
  static constexpr std::int64_t kExpansion = 4;

  explicit Bottleneck(const Stage& stage) : stage_(stage) { reset(); }
  void reset() override {
    const std::int64_t out = stage_.width * kExpansion;
    conv1 = register_module("conv1", std::make_shared<Convolution>(stage_.in, stage_.width, 1, 1));
    bn1 = register_module("bn1", torch::nn::BatchNorm2d(stage_.width));
    conv2 = register_module("conv2", std::make_shared<Convolution>(stage_.width, stage_.width, 3, stage_.stride));
    bn2 = register_module("bn2", torch::nn::BatchNorm2d(stage_.width));
    conv3 = register_module("conv3", std::make_shared<Convolution>(stage_.width, out, 1, 1));
    bn3 = register_module("bn3", torch::nn::BatchNorm2d(out));
    if (stage_.stride != 1 || stage_.in != out) {
      downsample = register_module("downsample", std::make_shared<Downsample>(stage_.in, out, stage_.stride));
    }
  }
  at::Tensor forward(const at::Tensor& input) {
    auto output = bn1->forward(conv1->forward(input)).relu_();
    output = bn2->forward(conv2->forward(output)).relu_();
    output = bn3->forward(conv3->forward(output));
    return output.add_(downsample ? downsample->forward(input) : input).relu_();
  }

  std::shared_ptr<Convolution> conv1, conv2, conv3;
  torch::nn::BatchNorm2d bn1{nullptr}, bn2{nullptr}, bn3{nullptr};
  std::shared_ptr<Downsample> downsample;

 private:
  Stage stage_;
};

class Head final : public torch::nn::Cloneable<Head> {
 public:
  explicit Head(std::int64_t features) : features_(features) { reset(); }
  void reset() override { fc = register_module("fc", std::make_shared<Dense>(features_, kClasses)); }
  at::Tensor forward(const at::Tensor& input) { return fc->forward(at::adaptive_avg_pool2d(input, {1, 1}).flatten(1)); }

  std::shared_ptr<Dense> fc;

 private:
  std::int64_t features_;
};

template <class Module>
Tensors run(torch::nn::Module& module, const Tensors& inputs) {
  return {static_cast<Module&>(module).forward(inputs.at(0))};
}

void initialise(torch::nn::Module& root, at::Generator& generator) {
  for (const auto& module : root.modules()) {
    if (auto* convolution = module->as<Convolution>()) {
      convolution->initialise(generator);
    } else if (auto* dense = module->as<Dense>()) {
      dense->initialise(generator);
    }
  }
}

SampleDescription parse_sample(const std::string& model, const std::string& input) {
  const std::string expected = model + " takes 3xHEIGHTxWIDTH or 3xHEIGHTxWIDTH:float64 with sides from 8 to 4096, e.g. 3x224x224";
  const auto given = parse_input(input, expected);
  const auto type = floating_type(given, expected);
  const auto shape = given ? given->shape : std::vector<std::int64_t>{3, 224, 224};
  const auto side = [](std::int64_t size) { return size >= 8 && size <= 4096; };
  if (shape.size() != 3 || shape[0] != 3 || !side(shape[1]) || !side(shape[2])) {
    throw Error("shape '" + input + "' does not fit", "--input", expected);
  }
  return {.input_shape = shape,
          .input_type = type,
          .input_classes = 0,
          .target_shape = {},
          .target_type = at::kLong,
          .target_classes = kClasses};
}

template <class Block>
Model make_resnet(const std::string& model, const std::array<int, 4>& blocks, const std::string& parameters, const std::string& input,
                  std::uint64_t seed) {
  (void)parse_parameters(model, parameters, {});
  const auto sample = parse_sample(model, input);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  std::vector<ModelLayer> chain;
  const auto add = [&](std::string name, std::vector<std::string> modules, const char* kind, const std::string& prefix, auto module,
                       ModuleForward forward) {
    initialise(*module, generator);
    convert(*module, sample.input_type);
    chain.push_back({std::move(name), std::move(modules), make_module_layer(kind, module, prefix, std::move(forward))});
  };

  add("stem", {"conv1", "bn1", "relu", "maxpool"}, "Stem", "", std::make_shared<Stem>(), run<Stem>);
  std::int64_t in = 64;
  for (std::size_t group = 0; group < blocks.size(); ++group) {
    const std::int64_t width = 64LL << group;
    for (int i = 0; i < blocks[group]; ++i) {
      const auto name = "layer" + std::to_string(group + 1) + "." + std::to_string(i);
      add(name, {name}, Block::kKind, name, std::make_shared<Block>(Stage{in, width, group > 0 && i == 0 ? 2 : 1}), run<Block>);
      in = width * Block::kExpansion;
    }
  }
  add("head", {"avgpool", "fc"}, "Head", "", std::make_shared<Head>(in), run<Head>);
  return {model, std::move(chain), Loss::cross_entropy(), sample, kBatch};
}

}  // namespace

Model make_resnet18(const std::string& parameters, const std::string& input, std::uint64_t seed) {
  return make_resnet<BasicBlock>("resnet18", {2, 2, 2, 2}, parameters, input, seed);
}

Model make_resnet50(const std::string& parameters, const std::string& input, std::uint64_t seed) {
  return make_resnet<Bottleneck>("resnet50", {3, 4, 6, 3}, parameters, input, seed);
}

}  // namespace mptune
