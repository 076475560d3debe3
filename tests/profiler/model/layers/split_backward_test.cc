// The plain backward is the truth: input gradients and weight gradients together give the same bits, by as many products.
#include "profiler/model/layers/split_backward.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/nn.h>

#include <functional>
#include <map>
#include <string>

#include "profiler/base/index.h"

namespace mptune::profiler {
namespace {

/// A small network: `forward` of an input, and its parameters.
struct Network {
  std::function<at::Tensor(const at::Tensor&)> forward;
  std::vector<at::Tensor> parameters;
  at::Tensor input;
  std::size_t set_aside = 0;  ///< weights that the split takes out of the backward
};

template <class Module>
Network of_module(Module module, at::Tensor input, std::size_t set_aside) {
  return {[module](const at::Tensor& x) mutable { return module->forward(x); }, module->parameters(), std::move(input), set_aside};
}

struct Gradients {
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> inputs;
  std::map<std::string, int> products;
};

bool is_product(const std::string& name) {
  for (const char* product : {"aten::mm", "aten::bmm", "aten::addmm", "aten::addmm_", "aten::convolution_backward",
                              "aten::embedding_dense_backward", "aten::mkldnn_rnn_layer_backward"})
    if (name == product) return true;
  return false;
}

std::map<std::string, int>* counted = nullptr;

std::unique_ptr<at::ObserverContext> count_product(const at::RecordFunction& function) {
  if (counted != nullptr && is_product(function.name())) ++(*counted)[function.name()];
  return nullptr;
}

/// The gradients of two steps of three micro-batches each, the second onto the gradients of the first.
Gradients gradients_of(const Network& network, bool split) {
  Gradients all;
  for (const at::Tensor& parameter : network.parameters) at::Tensor(parameter).mutable_grad().reset();
  counted = &all.products;
  const at::CallbackHandle handle = at::addThreadLocalCallback(at::RecordFunctionCallback(count_product));
  for (int microbatch = 0; microbatch < 6; ++microbatch) {
    GraphPiece piece{as_leaves({network.input * (microbatch + 1)}), {}, {}};
    if (network.input.is_floating_point()) piece.inputs[0].requires_grad_();
    at::Tensor output = network.forward(piece.inputs[0]);
    set_roots(piece, {output});
    const at::Tensor gradient = at::sin(output.detach() + microbatch);
    output.reset();
    const WeightGradients aside = split ? set_weights_aside(piece) : WeightGradients();
    EXPECT_EQ(aside.size(), split ? network.set_aside : 0);
    all.inputs.push_back(backward_through(std::move(piece), {gradient})[0]);
    for (const auto& weight : aside) weight->run();
  }
  at::removeCallback(handle);
  counted = nullptr;
  for (const at::Tensor& parameter : network.parameters) all.parameters.push_back(parameter.grad());
  return all;
}

void expect_same(const std::vector<at::Tensor>& split, const std::vector<at::Tensor>& plain) {
  ASSERT_EQ(split.size(), plain.size());
  for (std::size_t i = 0; i < split.size(); ++i) {
    ASSERT_EQ(split[i].defined(), plain[i].defined()) << i;
    if (!split[i].defined()) continue;
    EXPECT_TRUE(at::equal(split[i], plain[i])) << i;
    EXPECT_EQ(split[i].strides(), plain[i].strides()) << i;
  }
}

void expect_equal_to_plain(const Network& network) {
  const Gradients plain = gradients_of(network, false);
  std::vector<at::Tensor> kept;
  for (const at::Tensor& gradient : plain.parameters) kept.push_back(gradient.defined() ? gradient.clone() : gradient);
  const Gradients split = gradients_of(network, true);
  expect_same(split.parameters, kept);
  expect_same(split.inputs, plain.inputs);
  // A convolution makes its input's and its weight's gradient in one call, or in two.
  const auto without_convolutions = [](std::map<std::string, int> products) {
    return products.erase("aten::convolution_backward"), products;
  };
  EXPECT_EQ(without_convolutions(split.products), without_convolutions(plain.products));
}

at::Tensor numbers(at::IntArrayRef sizes, bool trained = false) {
  return (at::arange(c10::multiply_integers(sizes), at::kFloat) * 0.37F).sin().view(sizes).requires_grad_(trained);
}

at::Tensor trained(at::IntArrayRef sizes) {
  return numbers(sizes).clone().requires_grad_();
}

TEST(SplitBackward, Linear) {
  for (const bool bias : {false, true}) {
    const torch::nn::Linear linear(torch::nn::LinearOptions(6, 5).bias(bias));
    expect_equal_to_plain(of_module(linear, numbers({4, 6}), 1));
    expect_equal_to_plain(of_module(linear, numbers({2, 3, 6}), 1));
    expect_equal_to_plain(of_module(linear, numbers({6, 4}).t(), 1));
  }
}

TEST(SplitBackward, MatrixProductsWithTheWeightOnEitherSide) {
  const at::Tensor weight = trained({4, 6});
  expect_equal_to_plain({[=](const at::Tensor& x) { return weight.mm(x).relu(); }, {weight}, numbers({6, 3}), 1});
  expect_equal_to_plain({[=](const at::Tensor& x) { return weight.t().mm(x); }, {weight}, numbers({4, 3}), 1});
  expect_equal_to_plain({[=](const at::Tensor& x) { return x.mm(weight.t()); }, {weight}, numbers({3, 6}), 1});
  expect_equal_to_plain({[=](const at::Tensor& x) { return at::addmm(x.sum(1, true), x, weight, 2, 3); }, {weight}, numbers({3, 4}), 1});
}

TEST(SplitBackward, BatchedProducts) {
  const at::Tensor weight = trained({2, 4, 6});
  expect_equal_to_plain({[=](const at::Tensor& x) { return weight.bmm(x); }, {weight}, numbers({2, 6, 3}), 1});
  expect_equal_to_plain({[=](const at::Tensor& x) { return x.bmm(weight).sin(); }, {weight}, numbers({2, 3, 4}), 1});
}

TEST(SplitBackward, ProductsOfActivationsStay) {
  expect_equal_to_plain({[](const at::Tensor& x) { return x.mm(x.t()); }, {}, numbers({3, 4}), 0});
}

TEST(SplitBackward, Convolutions) {
  using torch::nn::Conv2d;
  using torch::nn::Conv2dOptions;
  const auto check = [](const Conv2dOptions& options) {
    for (const bool bias : {false, true}) {
      Conv2d convolution(Conv2dOptions(options).bias(bias));
      const at::Tensor input = numbers({3, 4, 8, 8});
      expect_equal_to_plain(of_module(convolution, input, 1));
      convolution->to(at::kFloat);
      convolution->weight.set_data(convolution->weight.detach().contiguous(at::MemoryFormat::ChannelsLast));
      expect_equal_to_plain(of_module(convolution, input.contiguous(at::MemoryFormat::ChannelsLast), 1));
    }
  };
  check(Conv2dOptions(4, 6, 3));
  check(Conv2dOptions(4, 6, 1));
  check(Conv2dOptions(4, 6, 3).groups(2).padding(1));
  check(Conv2dOptions(4, 4, 3).groups(4).stride(2));
  check(Conv2dOptions(4, 6, 3).dilation(2).padding(2));
  expect_equal_to_plain(of_module(torch::nn::Conv1d(4, 6, 3), numbers({3, 4, 8}), 1));
  expect_equal_to_plain(
      of_module(torch::nn::ConvTranspose2d(torch::nn::ConvTranspose2dOptions(4, 6, 3).stride(2)), numbers({3, 4, 5, 5}), 1));
}

TEST(SplitBackward, ChainsOfLayersWithNorms) {
  torch::nn::Sequential chain(torch::nn::Conv2d(3, 8, 3), torch::nn::BatchNorm2d(8), torch::nn::ReLU(torch::nn::ReLUOptions(true)),
                              torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 8, 3).padding(1)), torch::nn::GroupNorm(2, 8),
                              torch::nn::Flatten(), torch::nn::Linear(8 * 36, 10), torch::nn::LayerNorm(torch::nn::LayerNormOptions({10})));
  expect_equal_to_plain(of_module(chain, numbers({4, 3, 8, 8}), 3));
}

TEST(SplitBackward, Embeddings) {
  const at::Tensor words = at::tensor({0, 2, 1, 0, 3, 2}, at::kLong).view({2, 3});
  const auto network = [&](const at::Tensor& weight, std::int64_t padding, bool by_frequency, bool sparse, std::size_t set_aside) {
    // Indices are no leaves of floating point: the input is multiplied by micro-batch + 1, so take the rest.
    return Network{
        [=](const at::Tensor& x) { return at::embedding(weight, x % 4, padding, by_frequency, sparse); }, {weight}, words, set_aside};
  };
  expect_equal_to_plain(network(trained({4, 5}), -1, false, false, 1));
  expect_equal_to_plain(network(trained({4, 5}), 2, false, false, 1));
  expect_equal_to_plain(network(trained({4, 5}), -1, true, false, 1));
}

TEST(SplitBackward, SparseEmbeddingsStay) {
  const at::Tensor weight = trained({4, 5});
  GraphPiece piece{{at::tensor({0, 2}, at::kLong)}, {}, {}};
  const at::Tensor output = at::embedding(weight, piece.inputs[0], -1, false, true);
  set_roots(piece, {output});
  EXPECT_TRUE(set_weights_aside(piece).empty());
}

TEST(SplitBackward, WeightsUsedTwiceStay) {
  const at::Tensor weight = trained({4, 4}), table = trained({6, 4});
  expect_equal_to_plain({[=](const at::Tensor& x) { return x.mm(weight).relu().mm(weight); }, {weight}, numbers({3, 4}), 0});
  expect_equal_to_plain({[=](const at::Tensor& x) { return x.mm(weight) + weight.sum(); }, {weight}, numbers({3, 4}), 0});
  const at::Tensor words = at::tensor({0, 2, 1}, at::kLong);
  expect_equal_to_plain(
      {[=](const at::Tensor& x) { return at::embedding(table, words).mul(x).mm(table.t()); }, {table}, numbers({3, 4}), 0});
}

TEST(SplitBackward, FrozenWeightsAreNoneOfItsConcern) {
  torch::nn::Linear linear(4, 5);
  linear->weight.requires_grad_(false);
  expect_equal_to_plain(of_module(linear, numbers({3, 4}), 0));
  torch::nn::Conv2d convolution(4, 5, 3);
  convolution->bias.requires_grad_(false);
  expect_equal_to_plain(of_module(convolution, numbers({3, 4, 6, 6}), 1));
}

TEST(SplitBackward, WeightsWithHooksStay) {
  torch::nn::Linear linear(4, 5);
  linear->weight.register_hook([](const at::Tensor& gradient) { return gradient * 2; });
  expect_equal_to_plain(of_module(linear, numbers({3, 4}), 0));
  torch::nn::Conv2d convolution(4, 5, 3);
  convolution->bias.register_hook([](const at::Tensor& gradient) { return gradient * 2; });
  expect_equal_to_plain(of_module(convolution, numbers({3, 4, 6, 6}), 0));
}

TEST(SplitBackward, KeptWeightsStay) {
  torch::nn::Linear linear(4, 5);
  GraphPiece piece{as_leaves({numbers({3, 4})}), {}, {}};
  set_roots(piece, {linear->forward(piece.inputs[0])});
  EXPECT_TRUE(set_weights_aside(piece, {linear->weight}).empty());
}

TEST(SplitBackward, InputsOfThePieceAreNoWeights) {
  const at::Tensor weight = trained({4, 4});
  GraphPiece piece{{numbers({3, 4}, true), numbers({4, 4}).clone().requires_grad_()}, {}, {}};
  const at::Tensor output = piece.inputs[0].mm(piece.inputs[1]).mm(weight);
  set_roots(piece, {output});
  const WeightGradients aside = set_weights_aside(piece);
  ASSERT_EQ(aside.size(), 1U);
  EXPECT_TRUE(aside[0]->weight().is_same(weight));
  const Tensors gradients = backward_through(std::move(piece), {at::ones({3, 4})});
  EXPECT_TRUE(gradients[0].defined() && gradients[1].defined());
}

TEST(SplitBackward, AttentionAndRecurrentLayers) {
  torch::nn::MultiheadAttention attention(8, 2);
  Network network{[=](const at::Tensor& x) mutable { return std::get<0>(attention->forward(x, x, x)); }, attention->parameters(),
                  numbers({5, 3, 8}), 2};
  expect_equal_to_plain(network);
  torch::nn::LSTM lstm(8, 4);
  expect_equal_to_plain(
      {[=](const at::Tensor& x) mutable { return std::get<0>(lstm->forward(x)); }, lstm->parameters(), numbers({5, 3, 8}), 0});
}

TEST(SplitBackward, Autocast) {
  torch::nn::Linear linear(16, 16);
  expect_equal_to_plain({[=](const at::Tensor& x) mutable {
                           at::autocast::set_autocast_enabled(at::kCPU, true);
                           at::Tensor y = linear->forward(x).to(at::kFloat);
                           at::autocast::set_autocast_enabled(at::kCPU, false);
                           at::autocast::clear_cache();
                           return y;
                         },
                         linear->parameters(), numbers({8, 16}), 1});
}

/// Gradients of three micro-batches whose weight gradients run together, after a first one by itself.
Gradients fused_gradients_of(const Network& network, bool fused) {
  Gradients all;
  for (const at::Tensor& parameter : network.parameters) at::Tensor(parameter).mutable_grad().reset();
  std::vector<WeightGradients> by_weight;
  for (int microbatch = 0; microbatch < 4; ++microbatch) {
    GraphPiece piece{as_leaves({network.input * (microbatch + 1)}), {}, {}};
    const at::Tensor output = network.forward(piece.inputs[0]);
    set_roots(piece, {output});
    WeightGradients aside = set_weights_aside(piece);
    (void)backward_through(std::move(piece), {at::sin(output.detach() + microbatch)});
    by_weight.resize(aside.size());
    for (std::size_t w = 0; w < aside.size(); ++w) microbatch == 0 ? aside[w]->run() : by_weight[w].push_back(std::move(aside[w]));
  }
  counted = &all.products;
  const at::CallbackHandle handle = at::addThreadLocalCallback(at::RecordFunctionCallback(count_product));
  for (WeightGradients& gradients : by_weight) {
    if (fused) run_together(gradients);
    for (const auto& gradient : gradients) {
      if (!fused) gradient->run();
      EXPECT_TRUE(gradient->held().empty());
    }
  }
  at::removeCallback(handle);
  counted = nullptr;
  for (const at::Tensor& parameter : network.parameters) all.parameters.push_back(parameter.grad().clone());
  return all;
}

/// The same sums but for rounding, the same bits twice. Returns how often the products ran, unfused and fused.
std::pair<int, int> products_when_fused(const Network& network, bool same_bits = false) {
  const Gradients single = fused_gradients_of(network, false), fused = fused_gradients_of(network, true);
  expect_same(fused_gradients_of(network, true).parameters, fused.parameters);
  const auto count = [](const Gradients& gradients) {
    int sum = 0;
    for (const auto& [name, times] : gradients.products) sum += name == "aten::addmm" ? 0 : times;
    return sum;
  };
  for (std::size_t p = 0; p < fused.parameters.size(); ++p) {
    EXPECT_LT((fused.parameters[p] - single.parameters[p]).norm().item<double>(), 1e-5 * single.parameters[p].norm().item<double>()) << p;
    EXPECT_EQ(fused.parameters[p].strides(), single.parameters[p].strides()) << p;
    EXPECT_TRUE(!same_bits || at::equal(fused.parameters[p], single.parameters[p])) << p;
  }
  return {count(single), count(fused)};
}

TEST(RunTogether, ConvolutionsOfLargeWeightsRunOnce) {
  using torch::nn::Conv2dOptions;
  for (const bool bias : {false, true}) {
    const torch::nn::Conv2d large(Conv2dOptions(32, 32, 3).padding(1).bias(bias));
    EXPECT_EQ(products_when_fused(of_module(large, numbers({2, 32, 4, 4}), 1)), std::pair(3, 1));
    EXPECT_EQ(products_when_fused(of_module(large, numbers({2, 32, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast), 1)), std::pair(3, 1));
    EXPECT_EQ(products_when_fused(of_module(large, numbers({9, 32, 4, 4}), 1)), std::pair(3, 1)) << "9216 elements each";
    EXPECT_EQ(products_when_fused(of_module(large, numbers({10, 32, 4, 4}), 1), true), std::pair(3, 3)) << "one sample too many";
    const torch::nn::Conv2d groups(Conv2dOptions(64, 64, 3).groups(2).stride(2).bias(bias));
    EXPECT_EQ(products_when_fused(of_module(groups, numbers({2, 64, 5, 5}), 1)), std::pair(3, 1));
  }
}

TEST(RunTogether, TransposedConvolutionsRunOneAfterAnother) {
  const torch::nn::ConvTranspose2d transposed(torch::nn::ConvTranspose2dOptions(32, 32, 3));
  EXPECT_EQ(products_when_fused(of_module(transposed, numbers({1, 32, 2, 2}), 1), true), std::pair(3, 3));
}

TEST(RunTogether, MatrixProductsAddOntoTheGradient) {
  for (const bool bias : {false, true}) {
    const torch::nn::Linear linear(torch::nn::LinearOptions(6, 5).bias(bias));
    for (const Network& network : {of_module(linear, numbers({4, 6}), 1), of_module(linear, numbers({2, 3, 6}), 1)}) {
      const Gradients fused = fused_gradients_of(network, true);
      EXPECT_EQ(fused.products.at("aten::addmm_"), 3);
      EXPECT_FALSE(fused.products.contains("aten::mm"));
      (void)products_when_fused(network);
    }
  }
  const at::Tensor weight = trained({4, 6});
  (void)products_when_fused({[=](const at::Tensor& x) { return weight.mm(x).relu(); }, {weight}, numbers({6, 3}), 1});
  (void)products_when_fused({[=](const at::Tensor& x) { return weight.t().mm(x); }, {weight}, numbers({4, 3}), 1});
  (void)products_when_fused(
      {[=](const at::Tensor& x) { return at::addmm(x.sum(1, true), x, weight, 2, 3); }, {weight}, numbers({3, 4}), 1});
}

TEST(RunTogether, OthersRunOneAfterAnother) {
  const at::Tensor weight = trained({2, 4, 6}), table = trained({4, 5});
  const at::Tensor words = at::tensor({0, 2, 1, 0, 3, 2}, at::kLong).view({2, 3});
  (void)products_when_fused({[=](const at::Tensor& x) { return x.bmm(weight).sin(); }, {weight}, numbers({2, 3, 4}), 1}, true);
  (void)products_when_fused({[=](const at::Tensor& x) { return at::embedding(table, x % 4); }, {table}, words, 1}, true);
  torch::nn::Linear linear(16, 16);
  (void)products_when_fused({[=](const at::Tensor& x) mutable {
                               at::autocast::set_autocast_enabled(at::kCPU, true);
                               at::Tensor y = linear->forward(x).to(at::kFloat);
                               at::autocast::set_autocast_enabled(at::kCPU, false);
                               at::autocast::clear_cache();
                               return y;
                             },
                             linear->parameters(), numbers({8, 16}), 1},
                            true);
}

TEST(SplitBackward, ProductsThatTheBackwardDoesNotReachAddNothing) {
  const at::Tensor used = trained({4, 4}), unused = trained({4, 4});
  GraphPiece piece{as_leaves({numbers({3, 4}, true)}), {}, {}};
  const Tensors outputs{piece.inputs[0].mm(used), piece.inputs[0].mm(unused)};
  set_roots(piece, outputs);
  const WeightGradients aside = set_weights_aside(piece);
  ASSERT_EQ(aside.size(), 2U);
  (void)backward_through(std::move(piece), {at::ones({3, 4}), {}});
  for (const auto& weight : aside) weight->run();
  EXPECT_TRUE(used.grad().defined());
  EXPECT_FALSE(unused.grad().defined());
}

TEST(SplitBackward, HoldsInputAndOutputGradientUntilRun) {
  torch::nn::Linear linear(4, 5);
  GraphPiece piece{as_leaves({numbers({3, 4}, true)}), {}, {}};
  at::Tensor hidden = piece.inputs[0] * 2;
  const at::Tensor output = linear->forward(hidden);
  set_roots(piece, {output});
  const WeightGradients aside = set_weights_aside(piece);
  EXPECT_TRUE(aside[0]->held().empty());
  const at::Tensor gradient = at::ones({3, 5});
  (void)backward_through(std::move(piece), {gradient});
  ASSERT_EQ(aside[0]->held().size(), 2U);
  EXPECT_EQ(aside[0]->held()[0].data_ptr(), hidden.data_ptr());
  EXPECT_EQ(aside[0]->held()[1].data_ptr(), gradient.data_ptr());
  EXPECT_EQ(aside[0]->multiplications(), 3.0 * 4 * 5);
  aside[0]->run();
  EXPECT_TRUE(aside[0]->held().empty());
  EXPECT_EQ(hidden.storage().use_count(), 1U);
}

TEST(SplitBackward, RefusesInputsThatWereModifiedMeanwhile) {
  torch::nn::Linear linear(4, 5);
  GraphPiece piece{as_leaves({numbers({3, 4}, true)}), {}, {}};
  at::Tensor hidden = piece.inputs[0] * 2;
  set_roots(piece, {linear->forward(hidden)});
  const WeightGradients aside = set_weights_aside(piece);
  (void)backward_through(std::move(piece), {at::ones({3, 5})});
  {
    const at::NoGradGuard no_grad;
    hidden.add_(1);
  }
  EXPECT_THROW(aside[0]->run(), c10::Error);
}

}  // namespace
}  // namespace mptune::profiler
