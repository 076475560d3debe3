#include "random_graph.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "profiler/base/index.h"

namespace mptune::testing {
namespace {

using Makes = GraphLayerShape::Makes;
constexpr std::int64_t kWidth = GraphShape::kWidth;
constexpr int kMostTensors = 5;  // at a cut

class GraphLayer final : public Layer {
 public:
  GraphLayer(int index, GraphLayerShape shape) : index_(index), shape_(std::move(shape)) {
    if (!shape_.trained) return;
    for (std::size_t i = 0; i < shape_.flow.reads.size(); ++i)
      if (shape_.flow.reads[i] > 0) add({kWidth, kWidth});
    add({kWidth});
  }

  Tensors forward(const Tensors& inputs, const RunContext& context) override {
    for (const at::Tensor& input : inputs) EXPECT_TRUE(input.defined()) << index_;
    const at::Tensor sum = sum_of(inputs, context.samples);
    Tensors outputs;
    for (std::size_t i = 0; i < shape_.flow.passes.size(); ++i) {
      const int input = shape_.flow.passes[i];
      outputs.push_back(input < 0 ? made(sum, static_cast<double>(i + 1)) : inputs.at(as_index(input)));
    }
    return outputs;
  }
  [[nodiscard]] std::optional<TensorFlow> flow() const override { return shape_.declared ? std::optional(shape_.flow) : std::nullopt; }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return parameters_; }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override { return std::make_unique<GraphLayer>(index_, shape_); }
  [[nodiscard]] std::string kind() const override { return "Graph"; }

 private:
  void add(const std::vector<std::int64_t>& sizes) {
    const std::string name = "layer" + std::to_string(index_) + "." + std::to_string(parameters_.size());
    const auto start = static_cast<double>(7 * index_) + static_cast<double>(parameters_.size());
    const at::Tensor values = (at::arange(sizes.size() == 1 ? kWidth : kWidth * kWidth, at::kFloat) * 1.7 + start).sin() * 0.6;
    parameters_.push_back({name, values.view(sizes).clone().requires_grad_()});
  }

  [[nodiscard]] at::Tensor sum_of(const Tensors& inputs, std::int64_t samples) const {
    at::Tensor sum = at::full({samples, kWidth}, 0.1 * (index_ + 1));
    if (shape_.trained) sum = sum + parameters_.back().tensor;
    std::size_t weight = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (shape_.flow.reads.at(i) == 0) continue;
      const at::Tensor input = inputs[i].to(at::kFloat);
      sum = sum + (shape_.trained ? input.matmul(parameters_[weight++].tensor) : input * 0.7);
      if (shape_.flow.reads[i] > 1) sum = sum * input.sin();
    }
    return sum;
  }
  [[nodiscard]] at::Tensor made(const at::Tensor& sum, double factor) const {
    if (shape_.makes == Makes::masks) return sum > 0.1 * factor;
    const at::Tensor value = (sum * factor).tanh();
    return shape_.makes == Makes::constants ? value.detach() : value;
  }

  int index_;
  GraphLayerShape shape_;
  std::vector<NamedTensor> parameters_;  ///< the bias last
};

class Grower {
 public:
  explicit Grower(std::mt19937& random) : random_(random) {}

  GraphShape grow() {
    GraphShape shape{1 + below(3), {}};
    std::vector<int> taken;  // numbers of tensors: inputs of the model, then what layers make
    for (int i = 0; i < shape.inputs; ++i) taken.push_back(i);
    int tensors = shape.inputs;
    const int layers = 3 + below(6);
    for (int i = 0; i < layers; ++i) {
      std::vector<bool> is_input;
      for (const int tensor : taken) is_input.push_back(tensor < shape.inputs);
      GraphLayerShape grown = layer(is_input, i + 1 == layers);
      std::vector<int> returned;
      for (const int input : grown.flow.passes) returned.push_back(input >= 0 ? taken[as_index(input)] : tensors++);
      // A layer that returns a tensor twice must say so.
      if (std::set<int>(returned.begin(), returned.end()).size() < returned.size()) grown.declared = true;
      shape.layers.push_back(std::move(grown));
      taken = std::move(returned);
    }
    return shape;
  }

 private:
  int below(int count) { return static_cast<int>(random_() % static_cast<std::uint32_t>(count)); }

  GraphLayerShape layer(const std::vector<bool>& is_input, bool last) {
    GraphLayerShape shape;
    shape.flow.reads = reads(is_input);
    shape.flow.passes = passes(static_cast<int>(is_input.size()), last);
    shape.declared = below(4) > 0;
    shape.trained = last || (below(4) > 0 && std::ranges::count(shape.flow.passes, -1) > 0);
    if (!last && below(4) == 0) shape.makes = below(2) == 0 ? Makes::masks : Makes::constants;
    return shape;
  }

  std::vector<int> reads(const std::vector<bool>& is_input) {
    const int which = below(12);
    if (which == 0) return std::vector<int>(is_input.size(), 0);
    if (which == 1) return std::vector<int>(is_input.size(), 1);
    if (which <= 3) return {is_input.begin(), is_input.end()};
    std::vector<int> some(is_input.size(), 0);
    for (int i = 0; i <= below(3); ++i) some[as_index(below(static_cast<int>(some.size())))] = 1 + below(5) / 4;
    return some;
  }

  std::vector<int> passes(int given, bool last) {
    std::vector<int> outputs;
    const auto add = [&](int output) { outputs.insert(outputs.begin() + below(static_cast<int>(outputs.size()) + 1), output); };
    for (int i = 0; i < given; ++i)
      for (int times = last ? below(2) : below(8); times > 0 && static_cast<int>(outputs.size()) < kMostTensors - 1; times -= 6) add(i);
    if (last || outputs.empty() || below(6) > 0) add(-1);
    if (!last && static_cast<int>(outputs.size()) < kMostTensors && below(4) == 0) add(-1);
    return outputs;
  }

  std::mt19937& random_;
};

}  // namespace

GraphShape random_graph(std::mt19937& random) {
  return Grower(random).grow();
}

Model graph_model(const GraphShape& shape, bool declared) {
  std::vector<ModelLayer> layers;
  for (const GraphLayerShape& each : shape.layers) {
    const int index = static_cast<int>(layers.size());
    GraphLayerShape copy = each;
    copy.declared = copy.declared && declared;
    layers.push_back({"layer" + std::to_string(index), {}, std::make_unique<GraphLayer>(index, std::move(copy))});
  }
  SampleDescription sample;
  for (int i = 0; i < shape.inputs; ++i) sample.inputs.push_back({.shape = {kWidth}});
  const auto sum_of_squares = [](const Tensors& outputs, const at::Tensor&) {
    at::Tensor sum;
    for (const at::Tensor& output : outputs) {
      const at::Tensor squares = output.to(at::kFloat).square().mean();
      sum = sum.defined() ? sum + squares : squares;
    }
    return sum;
  };
  return {"graph", std::move(layers), Loss::custom("squares", sum_of_squares), sample, 8};
}

}  // namespace mptune::testing
