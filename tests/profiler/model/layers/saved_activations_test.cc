#include "profiler/model/layers/saved_activations.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

namespace mptune::profiler {
namespace {

using Compute = std::function<at::Tensor(const at::Tensor& input, const at::Tensor& weight)>;

at::Tensor made_leaf(std::vector<std::int64_t> shape) {
  return at::arange(1, 1 + std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()), at::kDouble)
      .div_(10)
      .reshape(shape)
      .requires_grad_();
}

struct Gradient {
  at::Tensor input, weight;
};

Gradient plain(const Compute& compute) {
  const at::Tensor input = made_leaf({4, 6}), weight = made_leaf({6, 6});
  compute(input, weight).sum().backward();
  return {input.grad(), weight.grad()};
}

/// What is saved is freed and overwritten before the backward gets its copies.
Gradient moved(const Compute& compute, std::size_t least_blocks) {
  const at::Tensor input = made_leaf({4, 6}), weight = made_leaf({6, 6});
  SavedActivations saved({input, weight});
  at::Tensor output;
  {
    const auto scope = saved.collect();
    output = compute(input, weight).sum();
  }
  std::vector<at::Tensor> blocks = saved.storages(), copies;
  EXPECT_GE(blocks.size(), least_blocks);
  for (const at::Tensor& block : blocks) {
    EXPECT_FALSE(block.is_alias_of(input) || block.is_alias_of(weight));
    copies.push_back(block.clone());
  }
  saved.free();
  for (at::Tensor& block : blocks) block.fill_(255);
  saved.restore(copies);
  output.backward();
  return {input.grad(), weight.grad()};
}

void expect_same(const Compute& compute, std::size_t least_blocks = 1) {
  const Gradient expected = plain(compute), found = moved(compute, least_blocks);
  EXPECT_TRUE(at::equal(expected.input, found.input));
  EXPECT_TRUE(at::equal(expected.weight, found.weight));
}

TEST(SavedActivations, ComeBackForTheBackward) {
  expect_same([](const at::Tensor& x, const at::Tensor& w) { return at::tanh(x.matmul(w)).mul(at::sigmoid(x)); }, 2);
  expect_same([](const at::Tensor& x, const at::Tensor& w) { return at::layer_norm(x.matmul(w), {6}); });
  expect_same([](const at::Tensor& x, const at::Tensor& w) { return at::log_softmax(x.matmul(w).relu(), 1).pow(2); });
}

TEST(SavedActivations, OfViewsAreOneBlock) {
  const Compute views = [](const at::Tensor& x, const at::Tensor& w) {
    const auto parts = x.matmul(w).chunk(3, 1);
    return parts[0].mul(parts[1]).mul(parts[2].t().contiguous().t());
  };
  expect_same(views, 2);
  const Compute strided = [](const at::Tensor& x, const at::Tensor& w) {
    const at::Tensor y = x.matmul(w);
    return y.t().slice(0, 1, 6, 2).mul(y.t().slice(0, 0, 6, 2));
  };
  expect_same(strided);
}

TEST(SavedActivations, LeaveTensorsOfOthersAlone) {
  const at::Tensor input = made_leaf({4, 6}), weight = made_leaf({6, 6});
  SavedActivations saved({input, weight});
  {
    const auto scope = saved.collect();
    (void)input.matmul(weight);  // saves both
  }
  EXPECT_TRUE(saved.storages().empty());
}

TEST(SavedActivations, OfADroppedGraphAreNotKept) {
  const at::Tensor input = made_leaf({4, 6}), weight = made_leaf({6, 6});
  SavedActivations saved({input, weight});
  {
    const auto scope = saved.collect();
    (void)at::tanh(input.matmul(weight));
  }
  EXPECT_TRUE(saved.storages().empty());
}

TEST(SavedActivations, AreNotAskedForOutsideOfTheScope) {
  const at::Tensor input = made_leaf({4, 6}), weight = made_leaf({6, 6});
  SavedActivations saved({input, weight});
  (void)saved.collect();
  const at::Tensor output = at::tanh(input.matmul(weight)).sum();
  EXPECT_TRUE(saved.storages().empty());
  EXPECT_NO_THROW(output.backward());
}

TEST(SavedActivations, ThatAreGivenUpAreAnErrorOfTheBackward) {
  const at::Tensor input = made_leaf({4, 6}), weight = made_leaf({6, 6});
  SavedActivations saved({input, weight});
  at::Tensor output;
  {
    const auto scope = saved.collect();
    output = at::tanh(input.matmul(weight)).sum();
  }
  EXPECT_EQ(saved.storages().size(), 1u);
  saved.free();
  EXPECT_THROW(output.backward(), c10::Error);
}

}  // namespace
}  // namespace mptune::profiler
