#include "profiler/model/random/randomness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <limits>

#include "profiler/base/error.h"
#include "profiler/model/layers/model.h"
#include "profiler/model/nn/module_layer.h"
#include "profiler/model/random/hashed_numbers.h"

namespace mptune::profiler {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kSamples = 6;

at::Tensor mask_of(std::int64_t first, std::int64_t samples, std::int64_t rows_each = 2, std::uint64_t key = 7) {
  return hashed_mask({key, first, samples}, 0.7, {samples * rows_each, 5}, at::kFloat);
}

TEST(HashedMask, BelongsToSamplesHoweverTheyAreSplit) {
  const at::Tensor whole = mask_of(0, kSamples);
  EXPECT_TRUE(at::equal(at::cat({mask_of(0, 1), mask_of(1, 3), mask_of(4, 2)}), whole));
  EXPECT_FALSE(at::equal(mask_of(0, 3), mask_of(3, 3)));
  EXPECT_FALSE(at::equal(mask_of(0, kSamples, 2, 8), whole));
}

TEST(HashedMask, IsTheSameByTensorOperations) {
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong}) {
    const auto by_loop = hashed_mask({~std::uint64_t{5}, 1'000'000'007, 3}, 0.25, {6, 1001}, at::TensorOptions(type));
    EXPECT_EQ(by_loop.scalar_type(), type);
    EXPECT_TRUE(at::equal(
        detail::hashed_mask_by_operations({~std::uint64_t{5}, 1'000'000'007, 3}, 0.25, {6, 1001}, at::TensorOptions(type)), by_loop));
  }
}

TEST(HashedUniform, BelongsToSamplesAndIsTheSameByTensorOperations) {
  for (const int digits : {8, 24, 53}) {
    const auto numbers = [&](std::int64_t first, std::int64_t samples) {
      return hashed_uniform({5, first, samples}, digits, {samples, 300}, at::kFloat);
    };
    const at::Tensor whole = numbers(0, kSamples);
    EXPECT_TRUE(at::equal(at::cat({numbers(0, 1), numbers(1, 3), numbers(4, 2)}), whole));
    EXPECT_TRUE(at::equal(detail::hashed_uniform_by_operations({5, 0, kSamples}, digits, {kSamples, 300}, at::kFloat), whole));
    EXPECT_GE(whole.min().item<double>(), 0);
    EXPECT_LE(whole.max().item<double>(), 1 - std::ldexp(1.0, -digits));
  }
}

// The largest distance between the distribution functions stays below the Kolmogorov-Smirnov bound for one chance in 10,000.
void expect_distribution(at::Tensor drawn, const std::function<at::Tensor(const at::Tensor&)>& distribution) {
  const at::Tensor sorted = std::get<0>(drawn.flatten().to(at::kDouble).sort());
  const at::Tensor steps = at::arange(1, sorted.numel() + 1, at::kDouble) / static_cast<double>(sorted.numel());
  EXPECT_LT((distribution(sorted) - steps).abs().max().item<double>(), 2.23 / std::sqrt(static_cast<double>(sorted.numel())));
}

// Of n independent draws the mean deviates by less than 5 standard deviations; neighbours in every direction are not correlated.
TEST(HashedMask, DrawsWithTheProbability) {
  const std::int64_t samples = 1000, each = 1000;
  for (const double keep : {0.1, 0.5, 0.9}) {
    const at::Tensor mask = hashed_mask({3, 0, samples}, keep, {samples, each}, at::kDouble);
    const double variance = keep * (1 - keep), deviation = 5 * std::sqrt(variance / static_cast<double>(samples * each));
    EXPECT_NEAR(mask.mean().item<double>(), keep, deviation);
    const at::Tensor centred = mask - keep;
    EXPECT_NEAR((centred.narrow(0, 0, 999) * centred.narrow(0, 1, 999)).mean().item<double>(), 0, 5 * variance / 999);
    EXPECT_NEAR((centred.narrow(1, 0, 999) * centred.narrow(1, 1, 999)).mean().item<double>(), 0, 5 * variance / 999);
    EXPECT_NEAR(mask.mean(0).std().item<double>(), std::sqrt(variance / static_cast<double>(samples)), 0.1 * std::sqrt(variance / 1000));
  }
  EXPECT_TRUE(at::equal(hashed_mask({3, 0, 2}, 1.0, {2, 100}, at::kFloat), at::ones({2, 100})));
  EXPECT_TRUE(at::equal(hashed_mask({3, 0, 2}, 0.0, {2, 100}, at::kFloat), at::zeros({2, 100})));
}

/// A module of a user's, called in training mode.
struct Random final : torch::nn::Cloneable<Random> {
  void reset() override {}
};

ModelLayer layer_of(std::function<at::Tensor(const at::Tensor&)> forward) {
  auto run = [forward = std::move(forward)](torch::nn::Module&, const Tensors& inputs) { return Tensors{forward(inputs.at(0))}; };
  return {"noisy", {}, make_module_layer("Random", std::make_shared<Random>(), "", std::move(run))};
}

at::Tensor drawn(const ModelLayer& layer, std::int64_t first, std::int64_t samples, std::int64_t step = 0, int index = 3,
                 at::IntArrayRef shape = {4, 5}) {
  std::vector<std::int64_t> sizes{samples};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return run_layer(layer, index, {at::ones(sizes)}, {.seed = 1, .step = step, .first_sample = first, .samples = samples})[0];
}

void expect_independent_of_the_split(const ModelLayer& layer) {
  const at::Tensor whole = drawn(layer, 0, kSamples);
  EXPECT_TRUE(at::equal(at::cat({drawn(layer, 0, 4), drawn(layer, 4, 1), drawn(layer, 5, 1)}), whole));
  EXPECT_FALSE(at::equal(drawn(layer, 0, kSamples, 1), whole)) << "the next step draws the same";
  EXPECT_FALSE(at::equal(drawn(layer, 0, kSamples, 0, 4), whole)) << "another layer draws the same";
  EXPECT_LT(whole.min().item<double>(), whole.max().item<double>());
}

TEST(RunLayer, DropoutOfEveryKindIsIndependentOfTheSplit) {
  expect_independent_of_the_split(layer_of([](const at::Tensor& x) { return at::dropout(x, 0.4, true); }));
  expect_independent_of_the_split(layer_of([](const at::Tensor& x) {
    at::Tensor y = x.clone();
    return at::dropout_(y, 0.4, true);
  }));
  expect_independent_of_the_split(layer_of([](const at::Tensor& x) { return at::feature_dropout(x, 0.4, true); }));
  expect_independent_of_the_split(layer_of([](const at::Tensor& x) { return at::alpha_dropout(x, 0.4, true); }));
  expect_independent_of_the_split(layer_of([](const at::Tensor& x) { return at::empty({x.size(0), 1, 1}).bernoulli_(0.5) * x; }));
  expect_independent_of_the_split(
      layer_of([](const at::Tensor& x) { return at::scaled_dot_product_attention(x, x, x.cumsum(-2), {}, 0.4); }));
  expect_independent_of_the_split(layer_of([](const at::Tensor& x) { return at::dropout(x.flatten(0, 1), 0.4, true); }));
  auto net = std::make_shared<torch::nn::SequentialImpl>(torch::nn::Dropout(0.3),
                                                         torch::nn::Dropout(torch::nn::DropoutOptions(0.3).inplace(true)));
  expect_independent_of_the_split({"net", {}, make_module_layer("Net", net, "", [](torch::nn::Module& module, const Tensors& inputs) {
                                     return Tensors{static_cast<torch::nn::SequentialImpl&>(module).forward(inputs.at(0))};
                                   })});
}

TEST(RunLayer, NumbersOfEveryKindAreIndependentOfTheSplit) {
  const auto noise = [](const std::function<at::Tensor(const at::Tensor&)>& draw) { expect_independent_of_the_split(layer_of(draw)); };
  noise([](const at::Tensor& x) { return at::rand(x.sizes()); });
  noise([](const at::Tensor& x) { return at::rand_like(x); });
  noise([](const at::Tensor& x) { return at::randn(x.sizes()); });
  noise([](const at::Tensor& x) { return at::randn_like(x, at::kDouble); });
  noise([](const at::Tensor& x) { return at::empty_like(x).uniform_(-1, 3); });
  noise([](const at::Tensor& x) { return at::empty_like(x).normal_(2, 0.5); });
  noise([](const at::Tensor& x) { return at::empty_like(x).exponential_(2); });
  noise([](const at::Tensor& x) { return at::bernoulli(x * 0.3); });
  noise([](const at::Tensor& x) { return at::bernoulli(x, 0.3); });
  noise([](const at::Tensor& x) { return at::empty_like(x).bernoulli_(x * 0.3); });
  noise([](const at::Tensor& x) { return std::get<0>(at::native_dropout(x, 0.3, true)); });
}

TEST(RunLayer, NumbersHaveTheirDistribution) {
  const auto draw = [](const std::function<at::Tensor(const at::Tensor&)>& forward) {
    return run_layer(layer_of(forward), 0, {at::empty({100, 1000})}, {})[0];
  };
  expect_distribution(draw([](const at::Tensor& x) { return at::rand_like(x); }), [](const at::Tensor& x) { return x; });
  expect_distribution(draw([](const at::Tensor& x) { return at::randn_like(x).mul_(2).add_(1); }),
                      [](const at::Tensor& x) { return at::special_ndtr((x - 1) / 2); });
  expect_distribution(draw([](const at::Tensor& x) { return at::empty_like(x).exponential_(3); }),
                      [](const at::Tensor& x) { return 1 - (-3 * x).exp(); });
  const at::Tensor half = draw([](const at::Tensor& x) { return at::empty_like(x, at::kHalf).uniform_(); });
  EXPECT_LT(half.max().item<double>(), 1);
}

TEST(RunLayer, NodesOfAProgramDrawTheSameInEveryLayer) {
  const auto at_node = [](std::int64_t node, const SampleAxis& axis, at::IntArrayRef sizes, std::int64_t first, std::int64_t samples,
                          int layer) {
    DrawScope scope({.seed = 1, .step = 0, .layer = layer, .name = "layer", .first_sample = first, .samples = samples});
    (void)at::empty(at::IntArrayRef{samples}).bernoulli_(0.5);
    scope.at_node(node, axis);
    return at::empty(sizes).bernoulli_(0.5);
  };
  const at::Tensor whole = at_node(7, {1, 3, 2}, {5, 24, 2}, 0, 4, 0);
  EXPECT_TRUE(at::equal(at_node(7, {1, 3, 2}, {5, 24, 2}, 0, 4, 1), whole));
  EXPECT_FALSE(at::equal(at_node(8, {1, 3, 2}, {5, 24, 2}, 0, 4, 0), whole));
  const at::Tensor last = at_node(7, {1, 3, 2}, {5, 6, 2}, 3, 1, 0);
  EXPECT_TRUE(at::equal(whole.view({5, 3, 4, 2, 2}).select(2, 3).reshape({5, 6, 2}), last));
  const at::Tensor shared = at_node(7, {-1, 1, 1}, {30}, 0, 4, 0);
  EXPECT_TRUE(at::equal(at_node(7, {-1, 1, 1}, {30}, 2, 1, 0), shared));
  EXPECT_THROW((void)at_node(7, {0, 1, 1}, {5, 4}, 0, 4, 0), Error);
}

// What a boolean mask hides is hidden with dropout as without, and it means what the same mask in numbers means.
TEST(RunLayer, AttentionWithDropoutKeepsToABooleanMask) {
  const at::Tensor seen = at::ones({kSamples, 1, 4, 4}, at::kBool).tril();
  const at::Tensor added = at::zeros(seen.sizes()).masked_fill_(seen.logical_not(), -std::numeric_limits<float>::infinity());
  const auto attend = [](const at::Tensor& mask, double last) {
    return layer_of([mask, last](const at::Tensor& x) {
      at::Tensor y = x.unsqueeze(1).clone();
      y.select(2, 3).fill_(last);  // only the last row may see itself
      return at::scaled_dot_product_attention(y, y, y, mask, 0.4).narrow(2, 0, 3);
    });
  };
  const at::Tensor masked = drawn(attend(seen, 1), 0, kSamples);
  EXPECT_TRUE(at::equal(masked, drawn(attend(seen, 100), 0, kSamples)));
  EXPECT_TRUE(at::allclose(masked, drawn(attend(added, 1), 0, kSamples)));
}

TEST(RunLayer, MasksAreThoseOfDropout) {
  const auto layer = layer_of([](const at::Tensor& x) { return at::stack({at::dropout(x, 0.4, true), at::dropout(x, 0.4, true)}, 1); });
  const at::Tensor both = run_layer(layer, 0, {at::ones({500, 20})}, {})[0];
  EXPECT_FALSE(at::equal(both.select(1, 0), both.select(1, 1))) << "both calls draw the same";
  const at::Tensor kept = both.ne(0);
  EXPECT_TRUE(at::allclose(both, kept / 0.6));
  EXPECT_NEAR(kept.to(at::kDouble).mean().item<double>(), 0.6, 5 * std::sqrt(0.24 / 20000));
}

TEST(RunLayer, RecomputationAndASecondTryDrawTheSame) {
  int calls = 0;
  const auto writes_once = layer_of([&calls](const at::Tensor& x) {
    ++calls;
    return at::Tensor(x).mul_(2) * at::dropout(at::ones_like(x), 0.5, true);
  });
  const at::Tensor first = drawn(writes_once, 0, 4);
  EXPECT_EQ(calls, 2) << "the first forward finds that the input was written to";
  EXPECT_TRUE(at::equal(first, drawn(writes_once, 0, 4)));
  const auto plain = layer_of([](const at::Tensor& x) { return at::dropout(x, 0.5, true); });
  const RunContext context{.seed = 4, .step = 2, .samples = 3};
  RunContext again = context;
  again.recomputing = true;
  EXPECT_TRUE(at::equal(run_layer(plain, 1, {at::ones({3, 50})}, context)[0], run_layer(plain, 1, {at::ones({3, 50})}, again)[0]));
}

TEST(RunLayer, RefusesWhatDoesNotBelongToSamples) {
  const auto refused = [](const ModelLayer& layer, const at::Tensor& input, const std::string& what) {
    try {
      (void)run_layer(layer, 0, {input}, {.samples = 4});
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_THAT(error.problem(), HasSubstr(what));
      EXPECT_EQ(error.where(), "layer noisy");
      EXPECT_FALSE(error.remedy().empty());
    }
  };
  refused(layer_of([](const at::Tensor& x) { return at::dropout(x.t().contiguous(), 0.5, true); }), at::ones({4, 5}), "5x4");
  refused(layer_of([](const at::Tensor& x) { return x * at::empty({}).bernoulli_(0.5); }), at::ones({4, 5}), "do not belong to samples");
  auto lstm = std::make_shared<torch::nn::LSTMImpl>(torch::nn::LSTMOptions(5, 3).num_layers(2).dropout(0.5).batch_first(true));
  const auto forward = [](torch::nn::Module& module, const Tensors& inputs) {
    return Tensors{std::get<0>(static_cast<torch::nn::LSTMImpl&>(module).forward(inputs.at(0)))};
  };
  refused({"noisy", {}, make_module_layer("LSTM", lstm, "", forward)}, at::ones({4, 8, 5}), "lstm");
  auto plain = std::make_shared<torch::nn::LSTMImpl>(torch::nn::LSTMOptions(5, 3).num_layers(2).batch_first(true));
  const ModelLayer accepted{"plain", {}, make_module_layer("LSTM", plain, "", forward)};
  EXPECT_EQ(run_layer(accepted, 0, {at::ones({4, 8, 5})}, {})[0].sizes(), (std::vector<std::int64_t>{4, 8, 3}));
  EXPECT_EQ(std::get<0>(lstm->forward(at::ones({4, 8, 5}))).size(0), 4) << "outside of layers";

  const at::Tensor input = at::rand({4, 8, 5});
  const at::Tensor trained = run_layer(accepted, 0, {input}, {})[0];
  const at::NoGradGuard no_gradients;
  const at::Tensor untrained = run_layer(accepted, 0, {input}, {})[0];
  EXPECT_TRUE(at::equal(trained, untrained)) << "recomputation runs it first without gradients, then with them";
  EXPECT_FALSE(untrained.requires_grad());
}

TEST(RunLayer, LeavesLibTorchsOwnRandomnessAsItIs) {
  (void)drawn(layer_of([](const at::Tensor& x) { return at::dropout(x, 0.5, true); }), 0, 1);
  const auto draw = [] {
    at::manual_seed(5);
    return at::cat({at::empty({50}).bernoulli_(0.5), at::dropout(at::ones({50}), 0.5, true)});
  };
  const at::Tensor first = draw();
  EXPECT_TRUE(at::equal(draw(), first));
  EXPECT_FALSE(at::equal(first.narrow(0, 0, 50), at::empty({50}).bernoulli_(0.5)));
  at::Tensor values = at::zeros({3});
  const auto version = values._version();
  values.bernoulli_(0.5);
  EXPECT_GT(values._version(), version);
  const at::Tensor leaf = at::ones({3}).requires_grad_();
  (leaf * 2).bernoulli_(0.5).sum().backward();
  EXPECT_TRUE(at::equal(leaf.grad(), at::zeros({3})));
  auto generator = at::make_generator<at::CPUGeneratorImpl>(9);
  auto other = at::make_generator<at::CPUGeneratorImpl>(9);
  const auto seeded = layer_of([&](const at::Tensor& x) { return at::empty_like(x).bernoulli_(0.5, generator); });
  EXPECT_TRUE(at::equal(run_layer(seeded, 0, {at::ones({2, 30})}, {})[0], at::empty({2, 30}).bernoulli_(0.5, other)));
}

TEST(RunLayer, DrawingIntoWhatNeedsAGradientIsRecorded) {
  const auto layer = layer_of([](const at::Tensor& x) { return (x * 2).bernoulli_(0.5) + x; });
  const at::Tensor input = at::ones({3, 4}).requires_grad_();
  run_layer(layer, 0, {input}, {})[0].sum().backward();
  EXPECT_TRUE(at::equal(input.grad(), at::ones({3, 4})));
}

}  // namespace
}  // namespace mptune::profiler
