#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "profiler/model/layers/model.h"

namespace mptune::testing {

/// y = x w, that throws when told to, and counts its forwards.
class FragileLayer final : public Layer {
 public:
  struct Switches {
    std::atomic<int> fail_at{-1};  ///< micro-batch
    std::atomic<int> forwards{0};
  };
  FragileLayer(std::string name, std::shared_ptr<Switches> switches)
      : name_(std::move(name)), switches_(std::move(switches)), weight_(at::eye(kWidth).requires_grad_()) {}
  static constexpr int kWidth = 64;

  Tensors forward(const Tensors& inputs, const RunContext& context) override {
    ++switches_->forwards;
    if (switches_->fail_at == context.microbatch) throw std::runtime_error("broken on purpose");
    return {at::matmul(inputs[0], weight_)};
  }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return {{name_ + ".weight", weight_}}; }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override { return std::make_unique<FragileLayer>(name_, switches_); }
  [[nodiscard]] std::string kind() const override { return "Fragile"; }

 private:
  std::string name_;
  std::shared_ptr<Switches> switches_;
  at::Tensor weight_;
};

/// The last layer has the switches.
inline Model fragile_model(int layers, const std::shared_ptr<FragileLayer::Switches>& switches, Loss loss = Loss::mean_square()) {
  std::vector<ModelLayer> all;
  for (int i = 0; i < layers; ++i) {
    const std::string name = "layer" + std::to_string(i);
    all.push_back(
        {name, {}, std::make_unique<FragileLayer>(name, i + 1 == layers ? switches : std::make_shared<FragileLayer::Switches>())});
  }
  SampleDescription sample;
  sample.inputs = {{.shape = {FragileLayer::kWidth}}};
  return {"fragile", std::move(all), std::move(loss), sample, 8};
}

}  // namespace mptune::testing
