#include "profiler/model/builtin/primitives.h"

#include <torch/nn.h>

#include <cmath>

namespace mptune::profiler {

Convolution::Convolution(std::int64_t in, std::int64_t out, std::int64_t window, std::int64_t stride, bool with_bias)
    : in_(in), out_(out), window_(window), stride_(stride), with_bias_(with_bias) {
  reset();
}

void Convolution::reset() {
  weight = register_parameter("weight", at::empty({out_, in_, window_, window_}));
  if (with_bias_) bias = register_parameter("bias", at::empty({out_}));
}

at::Tensor Convolution::forward(const at::Tensor& input) const {
  const std::int64_t padding = window_ / 2;
  // A workaround on CPU: on one thread LibTorch runs undilated 1x1 convolutions of fewer than 16 samples with its own kernels, up to ten
  // times slower than oneDNN. Dilation makes it use oneDNN and does not change the result of a 1x1 window. cuDNN has fewer kernels for it.
  const std::int64_t dilation = padding == 0 && stride_ == 1 && input.is_cpu() ? 2 : 1;
  return at::conv2d(input, weight, bias, {stride_, stride_}, {padding, padding}, {dilation, dilation});
}

void Convolution::initialise(at::Generator& generator) {
  const at::NoGradGuard no_gradients;
  weight.normal_(0, std::sqrt(2.0 / static_cast<double>(out_ * window_ * window_)), generator);
  if (with_bias_) bias.zero_();
}

TransposedConvolution::TransposedConvolution(std::int64_t in, std::int64_t out) : in_(in), out_(out) {
  reset();
}

void TransposedConvolution::reset() {
  weight = register_parameter("weight", at::empty({in_, out_, 2, 2}));
  bias = register_parameter("bias", at::empty({out_}));
}

at::Tensor TransposedConvolution::forward(const at::Tensor& input) const {
  return at::conv_transpose2d(input, weight, bias, {2, 2});
}

void TransposedConvolution::initialise(at::Generator& generator) {
  const at::NoGradGuard no_gradients;
  const double bound = 1.0 / std::sqrt(static_cast<double>(out_ * 4));
  weight.uniform_(-bound, bound, generator);
  bias.uniform_(-bound, bound, generator);
}

Dense::Dense(std::int64_t in, std::int64_t out, bool with_bias) : in_(in), out_(out), with_bias_(with_bias) {
  reset();
}

void Dense::reset() {
  weight = register_parameter("weight", at::empty({out_, in_}));
  if (with_bias_) bias = register_parameter("bias", at::empty({out_}));
}

at::Tensor Dense::forward(const at::Tensor& input) const {
  return at::linear(input, weight, bias);
}

void Dense::initialise(at::Generator& generator) {
  const at::NoGradGuard no_gradients;
  const double bound = 1.0 / std::sqrt(static_cast<double>(in_));
  weight.uniform_(-bound, bound, generator);
  if (with_bias_) bias.uniform_(-bound, bound, generator);
}

void Dense::initialise_normal(at::Generator& generator, double deviation) {
  const at::NoGradGuard no_gradients;
  weight.normal_(0, deviation, generator);
  if (with_bias_) bias.zero_();
}

Table::Table(std::int64_t rows, std::int64_t width) : rows_(rows), width_(width) {
  reset();
}

void Table::reset() {
  weight = register_parameter("weight", at::empty({rows_, width_}));
}

void Table::initialise(at::Generator& generator, double deviation) {
  const at::NoGradGuard no_gradients;
  weight.normal_(0, deviation, generator);
}

void convert(torch::nn::Module& module, at::ScalarType type) {
  auto tensors = module.parameters();
  const auto buffers = module.buffers();
  tensors.insert(tensors.end(), buffers.begin(), buffers.end());
  for (auto& tensor : tensors)
    if (at::isFloatingType(tensor.scalar_type()) && tensor.scalar_type() != type) tensor.set_data(tensor.detach().to(type));
}

}  // namespace mptune::profiler
