#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/jit/api/module.h>

/// TorchScript modules, made without Python, like those of torch.jit.script.
namespace mptune::testing {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
using NamedModules = std::vector<std::pair<std::string, torch::jit::Module>>;

/// `type` is the class name after "__torch__."; `code` holds its methods, "" for none.
inline torch::jit::Module script_module(const std::string& type, const NamedTensors& parameters, const NamedTensors& buffers,
                                        const NamedModules& children, const std::string& code) {
  torch::jit::Module module("__torch__." + type);
  module.register_attribute("training", c10::BoolType::get(), true);
  for (const auto& [name, tensor] : parameters) module.register_parameter(name, tensor.detach().set_requires_grad(true), false);
  for (const auto& [name, tensor] : buffers) module.register_buffer(name, tensor);
  for (const auto& [name, child] : children) module.register_module(name, child);
  if (!code.empty()) module.define(code);
  return module;
}

/// Has no forward(), which is never called.
inline torch::jit::Module script_sequential(const NamedModules& children, const std::string& type = "Sequential") {
  return script_module("torch.nn.modules.container." + type, {}, {}, children, "");
}

inline torch::jit::Module script_linear(std::int64_t in, std::int64_t out) {
  return script_module("torch.nn.modules.linear.Linear", {{"weight", at::randn({out, in}) * 0.1}, {"bias", at::zeros({out})}}, {}, {},
                       "def forward(self, input):\n  return torch.linear(input, self.weight, self.bias)\n");
}

inline torch::jit::Module script_relu(bool in_place) {
  return script_module("torch.nn.modules.activation.ReLU", {}, {}, {},
                       std::string("def forward(self, input):\n  return torch.relu") + (in_place ? "_" : "") + "(input)\n");
}

inline torch::jit::Module script_convolution(std::int64_t in, std::int64_t out, std::int64_t window, std::int64_t stride) {
  const auto s = std::to_string(stride), p = std::to_string(window / 2);
  return script_module(
      "torch.nn.modules.conv.Conv2d", {{"weight", at::randn({out, in, window, window}) * 0.1}}, {}, {},
      "def forward(self, input):\n  return torch.conv2d(input, self.weight, None, [" + s + ", " + s + "], [" + p + ", " + p + "])\n");
}

/// `factor` is the momentum, as code: "0.1".
inline torch::jit::Module script_batch_norm(std::int64_t channels, const std::string& factor = "0.1") {
  return script_module(
      "torch.nn.modules.batchnorm.BatchNorm2d", {{"weight", at::ones({channels})}, {"bias", at::zeros({channels})}},
      {{"running_mean", at::zeros({channels})}, {"running_var", at::ones({channels})}, {"num_batches_tracked", at::zeros({}, at::kLong)}},
      {},
      "def forward(self, input):\n"
      "  if self.training:\n"
      "    self.num_batches_tracked.add_(1)\n"
      "  return torch.batch_norm(input, self.weight, self.bias, self.running_mean, self.running_var, self.training, " +
          factor + ", 1e-05, True)\n");
}

inline torch::jit::Module script_basic_block(std::int64_t in, std::int64_t out, std::int64_t stride) {
  const bool shrinks = stride != 1 || in != out;
  NamedModules children = {{"conv1", script_convolution(in, out, 3, stride)},
                           {"bn1", script_batch_norm(out)},
                           {"conv2", script_convolution(out, out, 3, 1)},
                           {"bn2", script_batch_norm(out)}};
  if (shrinks) {
    const auto both = NamedModules{{"conv", script_convolution(in, out, 1, stride)}, {"bn", script_batch_norm(out)}};
    children.emplace_back("downsample", script_module("Downsample", {}, {}, both,
                                                      "def forward(self, input):\n  return self.bn.forward(self.conv.forward(input))\n"));
  }
  return script_module("torchvision.models.resnet.BasicBlock", {}, {}, children,
                       std::string("def forward(self, input):\n"
                                   "  out = torch.relu_(self.bn1.forward(self.conv1.forward(input)))\n"
                                   "  out = self.bn2.forward(self.conv2.forward(out))\n"
                                   "  out.add_(") +
                           (shrinks ? "self.downsample.forward(input)" : "input") + ")\n  return torch.relu_(out)\n");
}

/// ResNet-18 as a Sequential of a stem, four Sequentials of blocks and a head; parameters and buffers in the built-in model's order.
inline torch::jit::Module script_resnet18() {
  NamedModules pieces = {
      {"stem",
       script_module("Stem", {}, {}, {{"conv1", script_convolution(3, 64, 7, 2)}, {"bn1", script_batch_norm(64)}},
                     "def forward(self, input):\n"
                     "  return torch.max_pool2d(torch.relu_(self.bn1.forward(self.conv1.forward(input))), [3, 3], [2, 2], [1, 1])\n")}};
  std::int64_t in = 64;
  for (int group = 1; group <= 4; ++group) {
    const std::int64_t out = 32LL << group;
    const auto first = script_basic_block(in, out, group > 1 ? 2 : 1);
    pieces.emplace_back("layer" + std::to_string(group), script_sequential({{"0", first}, {"1", script_basic_block(out, out, 1)}}));
    in = out;
  }
  pieces.emplace_back("head", script_module("Head", {}, {}, {{"fc", script_linear(512, 1000)}},
                                            "def forward(self, input):\n"
                                            "  return self.fc.forward(torch.flatten(torch.adaptive_avg_pool2d(input, [1, 1]), 1))\n"));
  return script_sequential(pieces);
}

}  // namespace mptune::testing
