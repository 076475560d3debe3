// A user's own network in ordinary torch::nn, and the same as a model for mptune: a stage may begin at every child of the Sequential.
#pragma once

#include <mptune/mptune.h>
#include <mptune/nn.h>

#include <cstdint>
#include <string>

struct BlockImpl : torch::nn::Cloneable<BlockImpl> {
  explicit BlockImpl(std::int64_t features) : width(features) { reset(); }
  void reset() override {
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    up = register_module("up", torch::nn::Linear(width, 4 * width));
    down = register_module("down", torch::nn::Linear(4 * width, width));
  }
  at::Tensor forward(const at::Tensor& x) { return x + down(torch::gelu(up(norm(x)))); }

  std::int64_t width;
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear up{nullptr}, down{nullptr};
};
TORCH_MODULE(Block);

constexpr int kBlocks = 6;
constexpr std::int64_t kWidth = 192, kClasses = 3;

inline torch::nn::Sequential make_net() {
  torch::nn::Sequential net;
  net->push_back("in", torch::nn::Linear(2, kWidth));
  for (int i = 0; i < kBlocks; ++i) net->push_back("block" + std::to_string(i), Block(kWidth));
  net->push_back("out", torch::nn::Linear(kWidth, kClasses));
  return net;
}

inline mptune::Model make_model() {
  mptune::SampleDescription sample;  // for the tuner's synthetic data
  sample.inputs = {{.shape = {2}}};
  sample.target.classes = kClasses;
  return mptune::from_sequential(make_net(), mptune::Loss::cross_entropy(), sample);
}
