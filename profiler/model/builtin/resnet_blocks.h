#pragma once

#include <cstdint>
#include <memory>

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/types.h>

#include "profiler/model/builtin/primitives.h"

/// Blocks of torchvision's ResNet, with its module names and order of registration.
namespace mptune::profiler {

class ResNetStem final : public torch::nn::Cloneable<ResNetStem> {
 public:
  explicit ResNetStem(std::int64_t width) : width_(width) { reset(); }
  void reset() override {
    conv1 = register_module("conv1", std::make_shared<Convolution>(3, width_, 7, 2));
    bn1 = register_module("bn1", torch::nn::BatchNorm2d(width_));
  }
  at::Tensor forward(const at::Tensor& input) {
    return at::max_pool2d(bn1->forward(conv1->forward(input)).relu_(), {3, 3}, {2, 2}, {1, 1});
  }

  std::shared_ptr<Convolution> conv1;
  torch::nn::BatchNorm2d bn1{nullptr};

 private:
  std::int64_t width_;
};

class ResNetDownsample final : public torch::nn::Cloneable<ResNetDownsample> {
 public:
  ResNetDownsample(std::int64_t in, std::int64_t out, std::int64_t stride) : in_(in), out_(out), stride_(stride) { reset(); }
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

/// Sizes of a residual block: input channels, width, stride.
struct ResNetBlockSizes {
  std::int64_t in, width, stride;
};

class BasicBlock final : public torch::nn::Cloneable<BasicBlock> {
 public:
  static constexpr const char* kKind = "BasicBlock";
  static constexpr std::int64_t kExpansion = 1;

  explicit BasicBlock(const ResNetBlockSizes& sizes) : sizes_(sizes) { reset(); }
  void reset() override {
    conv1 = register_module("conv1", std::make_shared<Convolution>(sizes_.in, sizes_.width, 3, sizes_.stride));
    bn1 = register_module("bn1", torch::nn::BatchNorm2d(sizes_.width));
    conv2 = register_module("conv2", std::make_shared<Convolution>(sizes_.width, sizes_.width, 3, 1));
    bn2 = register_module("bn2", torch::nn::BatchNorm2d(sizes_.width));
    if (sizes_.stride != 1 || sizes_.in != sizes_.width)
      downsample = register_module("downsample", std::make_shared<ResNetDownsample>(sizes_.in, sizes_.width, sizes_.stride));
  }
  at::Tensor forward(const at::Tensor& input) {
    auto output = bn1->forward(conv1->forward(input)).relu_();
    output = bn2->forward(conv2->forward(output));
    return output.add_(downsample ? downsample->forward(input) : input).relu_();
  }

  std::shared_ptr<Convolution> conv1, conv2;
  torch::nn::BatchNorm2d bn1{nullptr}, bn2{nullptr};
  std::shared_ptr<ResNetDownsample> downsample;

 private:
  ResNetBlockSizes sizes_;
};

class Bottleneck final : public torch::nn::Cloneable<Bottleneck> {
 public:
  static constexpr const char* kKind = "Bottleneck";
  static constexpr std::int64_t kExpansion = 4;

  explicit Bottleneck(const ResNetBlockSizes& sizes) : sizes_(sizes) { reset(); }
  void reset() override {
    const std::int64_t out = sizes_.width * kExpansion;
    conv1 = register_module("conv1", std::make_shared<Convolution>(sizes_.in, sizes_.width, 1, 1));
    bn1 = register_module("bn1", torch::nn::BatchNorm2d(sizes_.width));
    conv2 = register_module("conv2", std::make_shared<Convolution>(sizes_.width, sizes_.width, 3, sizes_.stride));
    bn2 = register_module("bn2", torch::nn::BatchNorm2d(sizes_.width));
    conv3 = register_module("conv3", std::make_shared<Convolution>(sizes_.width, out, 1, 1));
    bn3 = register_module("bn3", torch::nn::BatchNorm2d(out));
    if (sizes_.stride != 1 || sizes_.in != out)
      downsample = register_module("downsample", std::make_shared<ResNetDownsample>(sizes_.in, out, sizes_.stride));
  }
  at::Tensor forward(const at::Tensor& input) {
    auto output = bn1->forward(conv1->forward(input)).relu_();
    output = bn2->forward(conv2->forward(output)).relu_();
    output = bn3->forward(conv3->forward(output));
    return output.add_(downsample ? downsample->forward(input) : input).relu_();
  }

  std::shared_ptr<Convolution> conv1, conv2, conv3;
  torch::nn::BatchNorm2d bn1{nullptr}, bn2{nullptr}, bn3{nullptr};
  std::shared_ptr<ResNetDownsample> downsample;

 private:
  ResNetBlockSizes sizes_;
};

}  // namespace mptune::profiler
