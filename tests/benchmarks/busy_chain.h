#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "profiler/model/layers/model.h"

namespace mptune::testing {

/// Keeps the core busy for `work` in forward and in backward, its own bookkeeping included.
struct BusyFunction : torch::autograd::Function<BusyFunction> {
  using Clock = std::chrono::steady_clock;
  static void stay_busy(Clock::time_point until) {
    while (Clock::now() < until) {
    }
  }
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            std::int64_t work_ns) {
    const auto until = Clock::now() + std::chrono::nanoseconds(work_ns);
    context->saved_data["work_ns"] = work_ns;
    at::Tensor output = at::empty_like(input);
    // Written, as a layer's output is: the copy of a boundary reads it from the cache.
    output.fill_(1);
    (void)weight;
    stay_busy(until);
    return output;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, const torch::autograd::variable_list& given) {
    const auto until = Clock::now() + std::chrono::nanoseconds(context->saved_data["work_ns"].toInt());
    at::Tensor gradient = at::empty_like(given[0]);
    gradient.fill_(1);
    torch::autograd::variable_list gradients{std::move(gradient), at::ones({1}), at::Tensor()};
    stay_busy(until);
    return gradients;
  }
};

class BusyLayer final : public Layer {
 public:
  BusyLayer(std::string name, std::chrono::nanoseconds work)
      : name_(std::move(name)), work_(work), weight_(at::zeros({1}).requires_grad_()) {}
  Tensors forward(const Tensors& inputs, const RunContext&) override {
    return {BusyFunction::apply(inputs[0], weight_, static_cast<std::int64_t>(work_.count()))};
  }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return {{name_ + ".weight", weight_}}; }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override { return std::make_unique<BusyLayer>(name_, work_); }
  [[nodiscard]] std::string kind() const override { return "Busy"; }

 private:
  std::string name_;
  std::chrono::nanoseconds work_;
  at::Tensor weight_;
};

/// `layers` busy layers that hand on `width` floats a sample.
inline Model busy_chain(int layers, std::chrono::nanoseconds work, std::int64_t width) {
  std::vector<ModelLayer> all;
  for (int i = 0; i < layers; ++i) {
    const std::string name = "busy" + std::to_string(i);
    all.push_back({name, {}, std::make_unique<BusyLayer>(name, work)});
  }
  SampleDescription sample;
  sample.inputs = {{.shape = {width}}};
  return {"busy", std::move(all), Loss::mean_square(), sample, 8};
}

}  // namespace mptune::testing
