#pragma once

#include <torch/nn/modules/conv.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "profiler/model/layers/model.h"
#include "profiler/model/nn/module_layer.h"

namespace mptune::testing {

inline ModelLayer convolution_layer(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t window) {
  const auto module = std::make_shared<torch::nn::Conv2dImpl>(torch::nn::Conv2dOptions(in, out, window).padding(window / 2));
  auto forward = [](torch::nn::Module& called, const Tensors& inputs) {
    return Tensors{dynamic_cast<torch::nn::Conv2dImpl&>(called).forward(inputs.at(0))};
  };
  return {name, {}, profiler::make_module_layer("Conv2d", module, name, std::move(forward))};
}

/// A 3x3 convolution, then a 1x1 one, which has a slow kernel on one thread below 16 samples.
inline Model two_convolutions() {
  std::vector<ModelLayer> layers;
  layers.push_back(convolution_layer("wide", 3, 32, 3));
  layers.push_back(convolution_layer("narrow", 32, 32, 1));
  return {"two", std::move(layers), Loss::mean_square(), {.inputs = {{.shape = {3, 16, 16}}}}, 16};
}

}  // namespace mptune::testing
